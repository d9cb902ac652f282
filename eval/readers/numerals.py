"""Converts counts to digits: number words of several parts ("one hundred and five", "half a dozen")
and numbers with thousands separators. Drops numbers that count nothing, such as list numbers
("1. a red cup")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from looktwice.eval.readers.vocabulary import NUMBER_WORD, NUMBERS, SCALE_WORD, Match, pattern
from looktwice.pipelines.counted import NUMBER_WORDS

MAX_COUNT = 10**12
"""The largest number that may count objects in an image; larger number words do not."""
_SCALES = {"hundred": 100, "dozen": 12, "dozens": 12, "thousand": 1000, "million": 10**6}
_TENS = "|".join(word for word in NUMBERS if word.endswith("ty"))
_HALVES_PATTERN = pattern(
    rf"(?<![\w-])(?:\d+|{NUMBER_WORD}|an?) and a half(?:[ -](?:dozen|{SCALE_WORD}))?\b"
)
_HALF_DOZEN_PATTERN = pattern(r"\b(?:a )?half[ -](?:a[ -])?dozen\b")
_SCALE_ALONE_PATTERN = pattern(rf"\A\W*(?:dozen|{SCALE_WORD})\W*\Z")
_NUMBER_WORDS_PATTERN = pattern(
    rf"(?<![\w.,-])(?<!half )(?:an?|\d[\d,]{{0,11}}|{NUMBER_WORD})[\s-]+(?:{SCALE_WORD}|dozen)\b"
    rf"(?:(?:\s+and\s+|[\s-]+)(?:{NUMBER_WORD}|{SCALE_WORD})(?!\w))*",
    rf"(?<![\w-])(?:{NUMBER_WORD})[\s-]+dozens\b",
    rf"(?<![\w-])(?:{_TENS})[\s-](?:{'|'.join(NUMBER_WORDS[1:10])})(?![\w-])",
)
_SEPARATED_NUMBER_PATTERN = re.compile(
    r"(?<![\w.,'])\d{1,3}(?:([,'])\d{3})(?:\1\d{3})*(?![\w]|[.,']\d)"
)
_PERCENT_PATTERN = pattern(r"(?<![\w.,])\d+(?:[.,]\d+)?\s?(?:%|percent\b|per cent\b)")
_ANY_NUMBER_PATTERN = pattern(rf"\d|(?<![\w-])(?:{NUMBER_WORD})(?![\w-])")
COUNTED_OBJECTS_PATTERN = pattern(
    r"\bhow many"
    r" ((?:[\w-]+\s+){0,4}?[\w-]+)(?=\s+(?:is|are|do|does|did|can|were|was|in|on)\b|\W*\Z)"
)
"""The objects that a question asks to count, with their adjectives."""
_PAIR_NOUNS = "scissors|glasses|sunglasses|pants|trousers|jeans|shorts|pliers|tweezers|binoculars"
_POSITION_NOUNS = (
    r"images?|pictures?|photos?|frames?|rows?|columns?|lines?|steps?|panels?|views?|figures?|pages?"
    r"|parts?|groups?|items?"
)
_LIST_NUMBER_PATTERN = re.compile(
    r"(?m)(?P<line>^[ \t>\u2022*-]{0,9})?(?:(?<=\s)|(?<=[>\u2022*-])|^)"
    r"(?P<open>[(\[#]?)(?P<number>\d{1,2})(?P<close>[.):\]/]|\s?[\u2013-](?=\s+[^\W\d]))(?:\s+|(?=[^\W\d]))(?=(?P<next>\S))"
)
_NO_COUNT_PATTERN = pattern(
    r"\b(?:can ?not|can't|unable|unclear|sorry|impossible|not sure|maybe|answer)\b"
)


def parse_number_words(words: Iterable[str]) -> int:
    """Return the number that several words form; if it is above MAX_COUNT, the result is some
    number above MAX_COUNT."""
    whole = part = 0
    for word in words:
        if whole + part > MAX_COUNT:
            break
        scale = _SCALES.get(word, 0)
        if scale >= 1000:
            whole, part = whole + max(part, 1) * scale, 0
        elif scale:
            part = max(part, 1) * scale
        else:
            part += int(NUMBERS.get(word, word))
    return whole + part


@lru_cache(maxsize=8192)  # replies and choices are repeated
def write_in_digits(text: str) -> str:
    """Write compound number words, and numbers with separators, as digits."""
    text = _HALVES_PATTERN.sub(lambda half: "0.5", text)
    text = _HALF_DOZEN_PATTERN.sub("6", text)
    if alone := _SCALE_ALONE_PATTERN.match(text):
        text = f"a {alone[0].strip()}"
    text = _NUMBER_WORDS_PATTERN.sub(_replace_number_words, text)
    return _SEPARATED_NUMBER_PATTERN.sub(lambda number: re.sub(r"\D", "", number[0]), text)


@lru_cache(maxsize=8192)
def parse_whole_number(choice: str) -> str:
    """Return a choice as digits if it is a whole number, otherwise ""."""
    digits = write_in_digits(choice.strip(" ."))
    digits = NUMBERS.get(digits.casefold(), digits)
    return digits if digits.isdigit() else ""


def _replace_number_words(match: Match) -> str:
    words = re.findall(r"\d[\d,]*|[a-z]+", match[0].casefold())
    plain = ["1" if word in ("a", "an") else word.replace(",", "") for word in words]
    return str(parse_number_words(word for word in plain if word != "and"))


def normalize_counts(text: str, question: str = "") -> str:
    """Return a reply with its counts in digits and without list numbers. Percentages and position
    numbers ("image 2") are also removed, as long as another number is left."""
    text = _strip_list_numbers(_count_pairs(write_in_digits(text), question))
    for strip in (_strip_percents, _strip_position_numbers):
        left = strip(text, question)
        text = left if _ANY_NUMBER_PATTERN.search(left) else text
    return text


def count_list_items(text: str) -> int:
    """Return the length of a numbered list in a reply without other numbers, or 0."""
    runs = list(_find_list_numbers(text))
    if len(runs) < 2 or _NO_COUNT_PATTERN.search(text):
        return 0
    return 0 if _ANY_NUMBER_PATTERN.search(_strip_list_numbers(text)) else len(runs)


def _count_pairs(text: str, question: str) -> str:
    text = re.sub(r"\A\W*(?:just |only |exactly )?an? (?:couple|pair)\W*\Z", "2", text, flags=re.I)
    if not (asked := COUNTED_OBJECTS_PATTERN.search(question)):
        return text
    noun = get_stem(asked[1].split()[-1])
    pair = rf"\ba (?:couple|pair(?! of (?:\w+ )?(?:{_PAIR_NOUNS}))) of (?=(?:\w+ ){{0,2}}{noun})"
    return re.sub(pair, "2 ", text, flags=re.I)


def get_stem(noun: str) -> str:
    """Return a pattern for a noun without its plural ending."""
    return re.escape(re.sub(r"(?:ies|es|s)\Z", "", noun) if len(noun) > 3 else noun)


def _strip_list_numbers(text: str) -> str:
    starts = {number.start("number"): number for number in _find_list_numbers(text)}
    return _LIST_NUMBER_PATTERN.sub(
        lambda number: "\n- " if number.start("number") in starts else number[0], text
    )


def _find_list_numbers(text: str) -> Iterator[Match]:
    """Yield the numbers of lists that are numbered from 1, at line starts or within a line."""
    run = list[Match]()
    for number in _LIST_NUMBER_PATTERN.finditer(text):
        value = int(number["number"])
        if value == 1 and _may_begin_item(text, number):
            yield from run if len(run) > 1 else ()
            run = [number]
        elif run and value == len(run) + 1 and number["close"] == run[0]["close"]:
            run.append(number)
    yield from run if len(run) > 1 else ()


def _may_begin_item(text: str, number: Match) -> bool:
    if number["line"] is not None:
        return True
    before = text[: number.start("open")].rstrip()[-1:]
    is_clear = number["open"] or number["close"] == ")" or number["next"].islower()
    return before in (".", "!", "?") or (before in (":", ";", ",", "(") and bool(is_clear))


def _strip_percents(text: str, question: str) -> str:
    return _PERCENT_PATTERN.sub(" ", text)


def _strip_position_numbers(text: str, question: str) -> str:
    """Remove position numbers, and the numbers in an enumeration of the objects asked for: "cup 1:
    red, cup 2: blue"."""
    if not (asked := COUNTED_OBJECTS_PATTERN.search(question)):
        return text
    text = re.sub(rf"\b({_POSITION_NOUNS})\s+#?\d{{1,2}}\b(?!\s*[./]\d)", r"\1", text, flags=re.I)
    numbered = rf"\b({get_stem(asked[1].split()[-1])}\w{{0,3}})\s+#?(\d{{1,2}})\b"
    found = [int(match[2]) for match in re.finditer(numbered, text, re.I)]
    if len(found) > 1 and found == list(range(1, len(found) + 1)):
        text = re.sub(numbered, r"\1", text, flags=re.I)
    return text
