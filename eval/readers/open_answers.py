"""Our own rules for replies to open questions: yes or no, true or false, a whole number, letters,
text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from looktwice.eval.readers.asides import find_correction, find_second_thoughts, strip_rival_answers
from looktwice.eval.readers.clean import clean_text, translate_to_english
from looktwice.eval.readers.numerals import (
    COUNTED_OBJECTS_PATTERN,
    count_list_items,
    get_stem,
    normalize_counts,
)
from looktwice.eval.readers.reader import Reading
from looktwice.eval.readers.vocabulary import (
    AGREEMENTS,
    DENIALS,
    FALSE_WORDS,
    NO_WORDS,
    NUMBERS,
    TRUE_WORDS,
    YES_WORDS,
    make_word_pattern,
    pattern,
)

_KIND_PATTERNS = {
    "true_false": (
        r"\bT or F\b|\btrue or false\b|\bT/F\b|\btrue/false\b|['\"]T['\"]\s*(?:or|/)\s*['\"]F['\"]"
    ),
    "yes_no": r"\byes\b[^.]{0,8}\bno\b",
    "letters": (
        r"\bletters only\b|\b(?:which|what) letters\b|\bread the letters\b|\bletters (?:are|in)\b"
    ),
    "integer": (
        r"\bhow many\b|\bnumber of\b|\bcount\b|\bOption <|\bwhole"
        r" number\b|\binteger\b|\bnumerical\b"
    ),
    "yes_no asked": r"^\W*(?:is|are|was|were|does|do|did|has|have|can|could|will)\b[^?]*\?\s*$",
}
_MAX_SHORT_TEXT_WORDS = 6  # of a text answer, beyond which second choices in it are not dropped
_KIND_BY_SUBTASK = {
    "letter_disambiguation": "letters",
    "shape_discrimination": "integer",
    "joint_shape_color": "integer",
}
_CLAIM_PHRASE = (
    r"(?:answer|choice|option|response|verdict|result|total|count|sum|conclusion|antwort"
    r"|r[e\u00e9]ponse|respuesta)"
)
_CLAIM_LINK = (
    r"\b(?:\s*(?:is|are|would be|should be|must"
    r" be|of|=|:)\s*){0,2}[\s\"'(:]*(?:option|about|exactly|that)?"
    r"\s*[\"'(]*"
)
_COPULA = r"\b(?:is|are|was|were)\s+(?:clearly |indeed |therefore |also )?"
_NEGATION = r"(?P<not>\b(?:not|never|isn't|aren't|wasn't|weren't)\s+)?"
_NEGATED_COPULA = r"\b(?=(?:isn't|aren't|wasn't|weren't)\s)"
_DOUBTED_PATTERN = pattern(
    r"\b(?:(?:don't|do not|doesn't|does"
    r" not|can't|cannot|couldn't)\s+(?:\w+\s+)?(?:think|believe|say|agree|appear|seem)"
    r"|not the case)\b[^.!?;\n]*$"
)
_NOUN_AHEAD_PATTERN = re.compile(r"\s+(?!because\b|since\b|as\b|and\b|but\b)\w")
_DIGITS_PATTERN = re.compile(r"(?<![A-Za-z\d_.,])-?\d+(?:,\d{3})*(?:\.0+)?(?![A-Za-z\d_]|[.,]\d)")
_NUMBER_WORDS_PATTERN = pattern(
    rf"(?<![\w-])(?:{'|'.join(sorted(NUMBERS, key=len, reverse=True))})(?![\w-])"
)
_ABSENT_PATTERN = pattern(
    r"\b(?:there (?:is|are) no|(?:don't|do not|cannot|can't) see any)\b(?!"
    r" (?:way|clear|enough|information))"
    r"|\bno \w+(?: \w+)? (?:is|are|can be) (?:visible|seen|shown|present)\b"
    r"|\b(?:there (?:is|are)|see|find|count) none\W*$"
    r"|\A\W*(?:none|no (?!(?:idea|clue|answer|image|picture|way)\b)\w+)\W*\Z"
)
_SKIPPED_WORDS = {"the", "of", "these", "those", "different", "total", "distinct"}
_ADJECTIVES = r"(?:(?!(?:and|or|but|of|the|is|are|no|not|in|on|with|next|than)\b)[^\W\d][\w-]*\s+)"
_UNSPACED_SCRIPT_PATTERN = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_LETTER_SEPARATOR = r"(?:[\s,\-&]|\band\b)+"
_LETTER_END = r"(?![A-Za-z]|'[a-z])"
_LETTER_RUN_PATTERN = re.compile(
    rf"(?<![A-Za-z])(?<![A-Za-z]')(?:[A-Z]{{2,}}|[A-Z](?:{_LETTER_SEPARATOR}[A-Z]{_LETTER_END})+"
    rf"|[A-Z](?!\s+[a-z])){_LETTER_END}"
)
_LINE_LETTER_PATTERN = re.compile(r"(?m)(?::|^\s*\d+[.)])\s*([A-Z])\W*$")


def get_question_kind(question: str, subtask: str = "") -> str:
    """Return the kind of answer, a key of `KIND_READERS`, that a question asks for, judging by its
    subtask or its wording; "text" if neither determines it."""
    asked = (kind for kind, asks in _KIND_PATTERNS.items() if re.search(asks, question, re.I))
    return _KIND_BY_SUBTASK.get(subtask) or next(asked, "text").removesuffix(" asked")


def read_open(reply: str, kind: str, question: str = "") -> Reading:
    """Read the answer of a reply: "yes"/"no", "T"/"F", a number in digits, capitals without spaces,
    or free text.

    A number of the objects that the `question` asks to count ("how many dogs") takes precedence
    over other numbers.
    """
    text = clean_text(reply)
    if not text:
        return Reading.for_empty_reply(reply)
    if kind in ("yes_no", "integer"):
        text, _ = translate_to_english(text)
    corrected = _read_correction(find_correction(text), kind, question)
    if corrected.answer is not None:
        return corrected
    if kind in ("yes_no", "integer") and (tail := find_second_thoughts(text)):
        reading = KIND_READERS[kind](tail, question)
        if reading.answer is not None:
            return reading
    left = strip_rival_answers(text)
    if left != text and (kind != "text" or len(left.split()) <= _MAX_SHORT_TEXT_WORDS):
        reading = KIND_READERS[kind](left.strip(), question)
        if reading.answer:
            return reading
    return KIND_READERS[kind](text, question)


def _read_correction(tail: str, kind: str, question: str) -> Reading:
    """Read the answer declared after "Correction:" or "Oops, ", except texts, which `find_text`
    finds."""
    first = re.split(r"(?<=[.!?;])\s+|\n", tail, maxsplit=1)[0]
    if kind == "integer" and re.match(r"\W*no(?:ne|thing)?\b", first, re.I):
        return Reading(None)  # "Correction: none."
    if kind != "text" and 0 < len(first.split()) <= 3:
        return KIND_READERS[kind](first, question)
    if kind == "integer":
        return _read_declared_integer(normalize_counts(tail, question), question)
    if kind != "text" and re.search(rf"\b{_CLAIM_PHRASE}\b", tail, re.I):
        return KIND_READERS[kind](tail, question)
    return Reading(None)


_NONE_WORDS = (
    r"no|zero|not an?(?: single)?|none of (?:the|these)|\w*n't (?:see |find )?(?:any?|a single)|not"
    r" (?:see |find )?any"
)


def find_asked_number(text: str, question: str) -> str | None:
    """Return the number, in digits, that a text gives for the objects that the question asks to
    count; None if it gives none or several.

    Of several numbers, the largest is returned if it is the sum of the others ("five boats: two
    blue boats and three red boats").
    """
    if not (asked := COUNTED_OBJECTS_PATTERN.search(question)):
        return None
    *adjectives, noun = [word for word in asked[1].split() if word.casefold() not in _SKIPPED_WORDS]
    number = rf"({_DIGITS_PATTERN.pattern}|{_NUMBER_WORDS_PATTERN.pattern})"
    if _UNSPACED_SCRIPT_PATTERN.search(noun):
        words = re.escape(noun)
        counted = rf"{number}\s*[^\s\d,.]{{0,4}}{words}"
        absent = rf"\bno [^,.]{{0,9}}{words}"
    else:
        words = rf"\s+{_ADJECTIVES}{{0,3}}?".join((*map(re.escape, adjectives), get_stem(noun)))
        counted = rf"{number}\s+{_ADJECTIVES}{{0,3}}?{words}"
        absent = rf"\b(?:{_NONE_WORDS})\s+{_ADJECTIVES}{{0,2}}?{words}"
    counts = sorted(int(_to_digits(count)) for count in re.findall(counted, text, re.I))
    if counts:
        whole = len(set(counts)) == 1 or 2 * counts[-1] == sum(counts)
        return str(counts[-1]) if whole else None
    if re.search(absent, text, re.I):
        return "0"
    single = (
        rf"\b(?:there(?: is|'s)|see) an? {_ADJECTIVES}?{words}\b|\b(?:a single|only an?)"
        rf" {_ADJECTIVES}?{words}\b"
    )
    return "1" if re.search(single, text, re.I) else None


def _read_two_words(words: Mapping[str, str], text: str, question: str) -> Reading:
    """Read one of two words: the one declared last, the one that begins the reply, or the only one
    that the reply contains."""
    first, second = words
    words_of_both = "|".join(words.values())
    both = rf"(?P<word>{words_of_both})"
    # "yes or no" is not an answer
    text = re.sub(rf"(?:{words_of_both})\s*(?:or|/)\s*(?:{words_of_both})", " ", text, flags=re.I)
    declaring = (
        rf"(?:{_CLAIM_PHRASE}{_CLAIM_LINK}|{_COPULA}|{_NEGATED_COPULA}|\b(?:it|that)'s )"
        rf"{_NEGATION}{both}"
    )
    answer = re.search(rf"[:;]\s*{_NEGATION}{both}\W*\Z", text, re.I)
    for match in re.finditer(declaring, text, re.I):
        if match["word"].casefold() != "no" or not _NOUN_AHEAD_PATTERN.match(text[match.end() :]):
            answer = match
    answer = answer or re.match(rf"\W*{_NEGATION}{both}", text, re.I)
    if answer:
        is_first = bool(re.fullmatch(words[first], answer["word"], re.I))
        against = bool(answer["not"]) != bool(_DOUBTED_PATTERN.search(text[: answer.start("word")]))
        return Reading(first if is_first != against else second)
    named = [name for name, word in words.items() if re.search(word, text, re.I)]
    if len(named) == 1:
        return Reading(named[0])
    return Reading(None, "unread: it names both answers or neither")


def _read_yes_no(text: str, question: str) -> Reading:
    text = re.sub(
        r"\A\W*([yn])\W*\Z", lambda bare: "yes" if bare[1] in "yY" else "no", text, flags=re.I
    )
    for word, others in (("yes", AGREEMENTS), ("no", DENIALS)):
        text = re.sub(
            rf"\A\W*{make_word_pattern(others)}(?=\s*(?:[.,;!\n]|$))", word, text, flags=re.I
        )
    return _read_two_words(
        {"yes": make_word_pattern(YES_WORDS), "no": make_word_pattern(NO_WORDS)}, text, question
    )


def _read_declared_integer(text: str, question: str) -> Reading:
    number = rf"(?:{_DIGITS_PATTERN.pattern}|{_NUMBER_WORDS_PATTERN.pattern})"
    total = (
        rf"\+\s*\d+\s*=\s*({number})|({number})\s+(?:\w+\s+){{0,3}}?(?:in total|in"
        r" all|altogether)\b"
        rf"|\bbut only ({number})|\bso ({number})\W*$"
    )
    for claims in (
        rf"\b{_CLAIM_PHRASE}{_CLAIM_LINK}({number})|{total}",
        rf"\bthere (?:is|are|was|were){_CLAIM_LINK}({number})",
    ):
        if marked := list(re.finditer(claims, text, re.I)):
            return Reading(_to_digits(marked[-1][marked[-1].lastindex or 0]))
        if (asked := find_asked_number(text, question)) is not None:
            return Reading(asked)
    return Reading(None)


def _read_integer(text: str, question: str) -> Reading:
    """Read a number: the length of a bare list; the number declared last; the number of the objects
    asked for; or the only number in the reply, or in its last sentence with a number."""
    if listed := count_list_items(text):
        return Reading(str(listed))
    text = normalize_counts(text, question)
    declared = _read_declared_integer(text, question)
    if declared.answer is not None:
        return declared
    whole = _find_numbers(text)
    sentences = map(_find_numbers, reversed(re.split(r"(?<=[.!?])\s+|\n+", text)))
    for numbers in (whole, next(filter(None, sentences), [])):
        if len(set(numbers)) == 1:
            return Reading(numbers[0])
    if whole:
        return Reading(None, "unread: it names several numbers")
    return (
        Reading("0")
        if _ABSENT_PATTERN.search(text)
        else Reading(None, "unread: it names no number")
    )


def _find_numbers(text: str) -> list[str]:
    return [
        _to_digits(number)
        for number in (*_DIGITS_PATTERN.findall(text), *_NUMBER_WORDS_PATTERN.findall(text))
    ]


def _to_digits(word: str) -> str:
    return NUMBERS.get(word.casefold(), word).replace(",", "").split(".")[0].lstrip("0") or "0"


def _read_letters(text: str, question: str) -> Reading:
    """Read the capitals after the last declaration, otherwise the longest run of capitals, unless
    another run is as long."""
    if len(listed := _LINE_LETTER_PATTERN.findall(text)) > 1 and len(listed) == len(
        text.splitlines()
    ):
        return Reading("".join(listed))
    after = re.split(r"\b(?:are|is|read|reads|spell|say)\b|:", text)[-1]
    for part in (after, text):
        runs = {re.sub(r"[^A-Z]", "", run) for run in _LETTER_RUN_PATTERN.findall(part)}
        longest, *others = sorted(runs, key=len, reverse=True) or [""]
        if longest and (not others or len(longest) > len(others[0])):
            return Reading(longest)
    bare, words = re.sub(r"[\s,.\-]", "", text), text.split()
    spelt = len(words) == 1 or max(map(len, words), default=3) <= 2
    if spelt and bare.isascii() and bare.isalpha():
        return Reading(bare.upper())
    return Reading(None, "unread: it names no letters, or several groups of them")


JSON_ANSWER_PATTERN = pattern(r'"(?:my|final)?_?answer"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?)')
"""An answer in JSON, including its quotation marks."""
_DECLARED_PATTERN = pattern(
    r"(?m)(?:^|(?<=[.!?;:,]\s))[^\w\n]*(?:\u7b54\u6848|\u56de\u7b54|\u7b54\u3048|\u6b63\u89e3)"
    r"\s*[:\u662f\u4e3a\u306f]\s*(?=(?P<asian>[^\n.]+?)(?:\u3067\u3059)?\s*(?:\.|$))",
    r"(?:^|(?<=[.!?;:,]\s))[^\w\n]*(?:(?:so|therefore|thus|hence|and|but),?\s+)?"
    r"(?:i (?:think|believe|would say|'d say)(?: that)?\s+)?(?:(?:the|my)\s+)?"
    r"(?:(?:final|correct|right|best|short|corrected|revised)\s+){0,3}"
    r"(?:a(?=:)|(?:my_|final_)?answer|correction|edit|antwort|r[e\u00e9]ponse|respuesta|risposta"
    r"|\u043e\u0442\u0432\u0435\u0442)\b"
    r"(?:\s+(?:is|was|would be|must be|should be)\b\s*:?|\s*[:=]|\s+[\u2013\u2014-](?=\s)|(?=\n))"
    r"\s*(?=(?P<text>\S[^\n]*))",
)
_REMARK_PATTERN = pattern(  # after a declared answer
    r"[.!?;]\s+(?=(?:the|this|that|it|i|there|in|my|we|you|both|these|those|as|at|on|because|since"
    r"|second|next|alternat\w+|runner|an?|correction|other|if|another)\b)"
    r"|\s*\((?:confidence\b|\d+(?:\.\d+)?\s?%)|,\s+(?:not|rather than|instead of|because|since)\b"
    r"|\s+because\b"
)


def find_text(text: str) -> str:
    """Return the answer that a cleaned reply declares last ("Answer: red"), otherwise its whole
    text."""
    *_, given = (None, *JSON_ANSWER_PATTERN.finditer(text))
    if given is not None:
        return given[1].strip('"')
    *_, declared = (None, *_DECLARED_PATTERN.finditer(text))
    if declared is None:
        return text
    answer = _REMARK_PATTERN.split(declared["text"] or declared["asian"], maxsplit=1)[0].strip()
    return find_text(answer) if answer and len(answer) < len(text) else text


KIND_READERS: Mapping[str, Callable[[str, str], Reading]] = {
    "yes_no": _read_yes_no,
    "true_false": partial(
        _read_two_words, {"T": make_word_pattern(TRUE_WORDS), "F": make_word_pattern(FALSE_WORDS)}
    ),
    "integer": _read_integer,
    "letters": _read_letters,
    "text": lambda text, question: Reading(find_text(text)),
}
"""The functions that read open answers, by kind; each takes a cleaned text and the question."""
