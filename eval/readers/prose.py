"""The rules of the reader `Robust` for a whole reply in prose: openings, lists, ticks, choices on
their own lines, and the choice of the decisive claim.

This module is imported for the first reply that is more than a bare choice. `robust` explains how a
reply is read and which file holds each rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from looktwice.eval.readers.asides import (
    find_correction,
    find_second_thoughts,
    mark_wrong_answers,
    strip_rivals,
)
from looktwice.eval.readers.claims import Claim, Claims, Weight, find_claims, split_sentences
from looktwice.eval.readers.clean import clean_text
from looktwice.eval.readers.mentions import (
    CHOICE_LIST_PATTERN,
    ONLY_CHOICES_PATTERN,
    TAG,
    find_tagged_letters,
)
from looktwice.eval.readers.open_answers import find_asked_number, get_question_kind, read_open
from looktwice.eval.readers.phrases import (
    ILLUSION_PATTERN,
    NEGATED_PATTERN,
    PHRASE_CHARACTER,
    RETURNED_QUESTION_PATTERN,
    UNDECIDED_PATTERN,
    UNDECIDED_SENTENCE_PATTERN,
)
from looktwice.eval.readers.reader import Reading
from looktwice.eval.readers.vocabulary import REFUSAL_PATTERN, Texts, may_contain, pattern

_TICKED_CHOICE_PATTERN = pattern(
    rf"(?m)(?:^|[\u274c\u2717\u2718])[^\w\n]*{TAG}[^\n\u27e6]*?"
    r"(?:[-:(\u2013\u2014]\s?(?:yes|correct|true)[^\w\n]*$|[\u2705\u2713\u2714\u2611])"
)
_OPENING_PATTERN = pattern(
    rf"^[\W_]*?(?:option\s+|choice\s+)?{TAG}(?=\s*(?:[.:;!)\n-]|$)|\s+[\d.,]+(?:\s*\n|\s*$|\.)"
    r"|,\s+(?!which|that|who|is|and|or|(?:on|in|at|near|behind)\b"
    r"|(?:\w+ )?(?:located|circled|marked|labell?ed|placed|positioned|situated|lying)\b)"
    r"|\s+(?:because|since|as)\b)"
)
_LIST_ITEM_PATTERN = pattern(
    r"^\W*(?:\d+\W+)?(?:option |image |picture |point )?\(?([A-H])[).:](?:\s|$)"
)
_SECOND_ITEM_PATTERN = re.compile(r"\s\(?[A-H][).:]\s+\S")  # "A. red B. blue"
_LIST_HEADING_PATTERN = re.compile(rf"\W*(?:\d+\W+)?{TAG}\s*:")
_AGREEING_WORDS, _DENYING_WORDS = ("yes", "correct", "true"), ("no", "incorrect", "wrong", "false")
_ITEM_VERDICT_PATTERN = re.compile(  # "(B) green: yes, ...", or "(A) no (B) yes"
    rf"(?:^[^\w\n\u27e6]*(?:option |choice )?{TAG}[^\n\u27e6]{{0,60}}?[:\u2013\u2014-] ?({{0}})\b"
    rf"|{TAG} ({{0}})(?=[\s,;.]*(?:\u27e6|\Z)))".replace(
        "{0}", "|".join((*_AGREEING_WORDS, *_DENYING_WORDS))
    ),
    re.I | re.M,
)
# "B. The roof", whose full stop tagging removes, or "the labels: B"
_ALONE_IN_FRONT_PATTERN = re.compile(rf"\A{TAG} (?=[A-Z])|:\s*{TAG}\W*\Z")
_TOTAL_PATTERN = pattern(r"\b(?:in total|in all|altogether|total|makes|making|sum)\b|=")
_FIRST_TAG_PATTERN = re.compile(rf"^\W*?{TAG}")
# "A, B and C are ..."
_SERIES_PATTERN = pattern(rf"(?:\s*,\s*{TAG})*\s*,?\s*(?:and|or|&)\s*(?:the )?{TAG}")
_OWN_LINE_PATTERN = re.compile(rf"[\W\d]*{TAG}(?: \d+)?[^\w:]*")
_CONTRAST_PATTERN = pattern(
    r"(?:(?:,|;|\(|^)\s*(?:and |but )?not|\brather than|\binstead of) (?:an? |the |in"
    rf" )*{TAG}\s*[,;]?"
)
_THAN_CHOICE_PATTERN = pattern(rf"\bthan {PHRASE_CHARACTER}{{0,40}}?{TAG}")
_CUT_OFF_PATTERN = re.compile(r"\n\s*[A-Z]\Z")
_DENIAL_PATTERN = pattern(
    r"\b(?:is|are|was|were)(?: not|n't)\b"
    r"(?! (?:\w+ )?(?:visible|shown|present|pictured|clear|possible|enough|sure|applicable))"
    r"|\b(?:does|do) not (?:appear|seem) to be\b(?=[^.]*\b(?:behind|in front|under|beneath|above|on"
    r" top|next to|beside"
    r"|inside|touching|to the (?:left|right))\b)(?![^.]*\b(?:visible|present|shown)\b)"
)
_ABSENT_PATTERN = pattern(r"\bno \w+|(?:\bnot|n't) (?:see|find)\b")
_UNSURE_PATTERN = pattern(
    r"\b(?:unclear|not clear|uncertain|not sure|enough (?:context|information)|no"
    r" (?:way|information))\b|\?"
)
_FUNCTION_WORD_PATTERN = re.compile(
    r"is|are|was|were|do|does|did|has|have|can|could|will|would|a|an|the|of|in|this|that|image"
    r"|there|it"
)


@dataclass(frozen=True)
class AskedQuestion:
    """The question that a reply answers; its text, `question`, is None if the text has no effect on
    how the reply is read.

    If `asks_for_wrong_choice` is true, the question asks which choice is wrong.
    """

    letters: str
    choices: Texts
    subtask: str
    question: str | None
    asks_for_wrong_choice: bool


def read_without_choices(reply: str, kind: str, question: str, subtask: str) -> Reading:
    """Read a reply to an open question; a statement may also answer yes or no."""
    kind = get_question_kind(question, subtask) if kind == "auto" else kind
    reading = read_open(reply, kind, question)
    if reading.answer is not None or kind != "yes_no":
        return reading
    statement = _read_statement(clean_text(reply), question)
    if statement is None:
        return reading
    return Reading("yes" if statement.answer == "A" else "no")


def read_prose(text: str, tagged: str, asked: AskedQuestion) -> Reading:
    """Read the letter that a cleaned reply claims; `tagged` is the reply with tagged choices."""
    tagged = tagged if asked.asks_for_wrong_choice else mark_wrong_answers(tagged)
    reading = _read_claims(text, tagged, asked)
    if reading.answer is None and asked.question is not None and "yes" in asked.choices:
        return _read_statement(text, asked.question) or reading
    return reading


def _read_claims(text: str, tagged: str, asked: AskedQuestion) -> Reading:
    """Read the claims after a correction, otherwise those of the whole reply. If second choices are
    named, plain statements in the text without them take precedence."""
    if (tail := find_correction(tagged)) and (corrected := _read_declared(tail, asked)):
        return corrected
    if tail := find_second_thoughts(tagged):
        reading = _read_decisive_claim(_collect_claims(tail, tail, asked), tail, asked.letters)
        if reading.answer is not None:
            return reading
    claims = tuple(_collect_claims(text, tagged, asked))
    if len({*find_tagged_letters(tagged)}) > 1 and (left := strip_rivals(tagged)) != tagged:
        first = _read_declared(left, asked)
        if first is not None and first.answer is not None:
            return first
    return _read_decisive_claim(claims, tagged, asked.letters)


def _read_declared(tagged: str, asked: AskedQuestion) -> Reading | None:
    """Read the plain statements in part of a reply, ignoring hints and descriptions; return None if
    there are no plain statements."""
    first = next(iter(split_sentences(tagged)), "")
    if len({*find_tagged_letters(first)}) > 1 and CHOICE_LIST_PATTERN.fullmatch(first):
        return Reading.from_letter("", asked.letters)
    if alone := ONLY_CHOICES_PATTERN.fullmatch(first) or _ALONE_IN_FRONT_PATTERN.search(first):
        return Reading.from_letter(alone[alone.lastindex or 1], asked.letters)
    plain = _select_statements(_collect_claims(tagged, tagged, asked))
    return _read_decisive_claim(plain, tagged, asked.letters) if plain else None


def _select_statements(claims: Iterable[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim.weight >= Weight.STATED and not claim.is_against]


def _collect_claims(text: str, tagged: str, asked: AskedQuestion) -> Claims:
    letters, question = asked.letters, asked.question
    for sentence in split_sentences(tagged):
        yield from find_claims(sentence, letters, asked.subtask)
    # the reply's number of the objects that the question asks to count
    if question and not _TOTAL_PATTERN.search(text):
        texts = dict(zip(letters, asked.choices, strict=True))
        words = re.sub(TAG, lambda named: texts.get(named[1], ""), text)
        number = find_asked_number(words, question)
        if number is not None and number in asked.choices:
            yield Claim(Weight.STATED, letters[asked.choices.index(number)])
    yield from _find_opening_claim(text, tagged)
    yield from _find_own_line_claim(text, tagged)
    ticked = set(_TICKED_CHOICE_PATTERN.findall(tagged))
    if len(ticked) == 1 and set(find_tagged_letters(tagged)) > ticked:
        yield Claim(Weight.DECLARED, ticked.pop())
    verdicts = list(_ITEM_VERDICT_PATTERN.finditer(tagged))
    agreed = [item for item in verdicts if (item[2] or item[4]).lower() in _AGREEING_WORDS]
    if len(agreed) == 1 and len(verdicts) > 1:
        yield Claim(Weight.DECLARED, agreed[0][1] or agreed[0][3])
    yield from _find_only_mention_claim(tagged, letters)


def _find_opening_claim(text: str, tagged: str) -> Claims:
    """Yield a claim for the choice that the reply begins with, unless the text goes through the
    choices line by line."""
    opening = _OPENING_PATTERN.match(tagged)
    items = set()
    for begins, lines in ((_LIST_ITEM_PATTERN, text), (_LIST_HEADING_PATTERN, tagged)):
        items |= {item[1] for item in map(begins.match, lines.splitlines()) if item}
    if opening is None and _LIST_ITEM_PATTERN.match(text) and not _SECOND_ITEM_PATTERN.search(text):
        opening = _FIRST_TAG_PATTERN.match(tagged)
    if opening and len(items) < 2 and not _SERIES_PATTERN.match(tagged[opening.end(1) + 1 :]):
        yield Claim(Weight.OPENED, opening[1])


def _find_own_line_claim(text: str, tagged: str) -> Claims:
    """Yield a claim for a choice that makes up a line, or the last sentence, by itself, unless
    another line consists of another choice."""
    lines = [line.strip() for line in tagged.splitlines() if line.strip()]
    sentences = split_sentences(tagged)
    last = ONLY_CHOICES_PATTERN.fullmatch(sentences[-1]) if len(sentences) > 1 else None
    if last and "\n" not in tagged:
        yield Claim(Weight.DECLARED, last[1])
    alone = {choice[1] for choice in map(_OWN_LINE_PATTERN.fullmatch, lines) if choice}
    if len(alone) == 1 and len(lines) > 1:
        cut = _CUT_OFF_PATTERN.search(text)  # a last letter may begin a word that was cut off
        yield Claim(Weight.CONCLUDED if cut else Weight.DECLARED, alone.pop())


def _find_only_mention_claim(tagged: str, letters: str) -> Claims:
    """Yield a claim for the only choice that the reply names, if the last sentence that names it is
    neither a negation nor a question."""
    if any(may_contain(tagged, word) for word in ("not", "than", "instead")):
        tagged = _CONTRAST_PATTERN.sub("", tagged)
    mentioned, last = set[str](), ""
    for sentence in split_sentences(tagged):
        if named := {*find_tagged_letters(sentence)} & {*letters}:
            mentioned, last = mentioned | named, sentence
    doubts = (NEGATED_PATTERN, UNDECIDED_SENTENCE_PATTERN, ILLUSION_PATTERN, _THAN_CHOICE_PATTERN)
    if len(mentioned) == 1 and not any(doubt.search(last) for doubt in doubts):
        yield Claim(Weight.NAMED, mentioned.pop())


def _read_decisive_claim(claims: Iterable[Claim], tagged: str, letters: str) -> Reading:
    """Read the last claim with the highest weight. Weak claims must agree, and do not count if the
    reply states that it cannot decide."""
    favoured, against = list[Claim](), set[str]()
    for claim in claims:
        if claim.weight >= Weight.DECLARED or claim.letter in letters:
            if claim.is_against:
                against.add(claim.letter)
            else:
                favoured.append(claim)
    stated = {claim.letter for claim in favoured if claim.weight is Weight.STATED}
    # plain sentences that disagree count no more than others
    alike = len(stated) > 1 or RETURNED_QUESTION_PATTERN.search(tagged) is not None
    by_weight = defaultdict[Weight, list[str]](list)
    for claim in favoured:
        lowered = alike and claim.weight is Weight.STATED
        by_weight[Weight.PREFERRED if lowered else claim.weight].append(claim.letter)
    for weight, named in sorted(by_weight.items(), reverse=True):
        doubted = len({*named}) > 1 or UNDECIDED_PATTERN.search(tagged)
        ruled_out = weight is Weight.NAMED and named[-1] in against
        if ruled_out or (weight <= Weight.DESCRIBED and doubted):
            continue
        if len({*named}) > 2 and named.count(named[-1]) < 2:
            return Reading.from_letter("", letters)
        return Reading.from_letter(named[-1], letters)
    if UNDECIDED_PATTERN.search(tagged):
        return Reading(None, "refused: it says that it cannot tell")
    left = set(letters) - against
    if len(left) == 1:
        return Reading(left.pop())
    return Reading(
        None, "refused" if REFUSAL_PATTERN.search(tagged) else "unread: no choice is declared"
    )


def _read_statement(text: str, question: str) -> Reading | None:
    """Read a statement as yes or no: a negated statement means no; a statement with all words of
    the question means yes."""
    if (
        REFUSAL_PATTERN.search(text)
        or UNDECIDED_PATTERN.search(text)
        or _UNSURE_PATTERN.search(text)
    ):
        return None
    words = re.findall(r"\w+", question.casefold())
    asked = {word for word in words if not _FUNCTION_WORD_PATTERN.fullmatch(word)}
    for sentence in reversed(split_sentences(text)):
        if asked <= set(re.findall(r"\w+", sentence.casefold())):
            if _DENIAL_PATTERN.search(sentence) or (asked and _ABSENT_PATTERN.search(sentence)):
                return Reading("B")
            if asked:
                return Reading("A")
    return None
