"""What single sentences of a reply claim about the choices: who is declared, preferred, described or ruled out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain

from looktwice.eval.readers import phrases
from looktwice.eval.readers.mentions import MENTION, letters_in
from looktwice.eval.readers.phrases import COPULA, GAP, NEAR, NEGATED, NOT, SIGN
from looktwice.eval.readers.subtask_words import Predicates

_HEADING = re.compile(
    r"(:|\b(?:is|be))\s*\n\s*(?![^\n]*\n\s*[^\w\u27e6]*(?:option |choice )?\u27e6)", re.I
)  # fmt: skip
_END = re.compile(r"(?<=[.!?;])\s+(?!\))|\n+")
_BETWEEN = re.compile(rf"\bbetween\s+{MENTION}[^.]*$", re.I)
_AFTER = re.compile(rf"{GAP}{{0,110}}?{COPULA}{SIGN}", re.I)
_BESIDE = re.compile(rf"\s*(?:{NEAR}{{0,30}}?\b(?:to|with|as|by|of|in|for)\b|is|:)?\s*{NEAR}{{0,25}}?{SIGN}", re.I)
_COMPARED = re.compile(r"\b(?:than|from|compared)\b", re.I)
_BEFORE_BEST = re.compile(r"\b(?:least|less|not)\s+(?:the\s+)?$", re.I)
_THAN = re.compile(rf"{NEAR}{{0,40}}?\bthan {NEAR}{{0,40}}?{MENTION}", re.I)
_CHAINED = re.compile(rf"(?:{MENTION}(?:\s|,|and\b|or\b|&|the\b)*){{2,}}{NEAR}{{0,40}}$", re.I)
_CLOSED = re.compile(r"\u27e7 (?:is|was|looks|seems|appears)(?: \w+ly)? (?:the )?$", re.I)
_FAR = 220  # characters between a subject and its predicate
_LONGEST = 4000  # characters of a sentence; the time to hear one grows with their square


class Weight(IntEnum):
    """How much a claim binds: a higher weight is heard first, and of equal ones the last."""

    NAMED = 1
    DESCRIBED = 2
    CONCLUDED = 3
    PREFERRED = 4
    OPENED = 5
    DECLARED = 6
    MARKED = 7


@dataclass(frozen=True)
class Claim:
    """A claim for a choice, or against it; `letter` is empty where several choices or none of them are meant."""

    weight: Weight
    letter: str
    against: bool = False


def sentences_of(text: str) -> list[str]:
    """The sentences of a text; a line that ends with a colon goes with the next one, unless that begins a list.

    Of one that never ends, as endless repetition makes it, the last characters are heard.
    """
    return [part.strip()[-_LONGEST:] for part in _END.split(_HEADING.sub(r"\1 ", text)) if part.strip()]


def claims_of(sentence: str, letters: str, words: Predicates) -> Iterator[Claim]:
    """The claims of one sentence with signs for its choices (see `mentions`)."""
    forced = bool(phrases.FORCED.search(sentence))
    text = sentence if forced else phrases.SUBORDINATE.sub("", sentence)
    if phrases.NOBODY.search(text) and not forced:
        yield Claim(Weight.PREFERRED, "")
    if not letters_in(text) or (phrases.NOT_YET.search(text) and not forced):
        return
    yield from _predicated(text, words.strong, Weight.PREFERRED, words.follows)
    if words.weak:
        yield from _predicated(text, words.weak, Weight.DESCRIBED, words.follows)
    if words.other:
        yield from _opposed(text, words.other, letters, words.equal)
    if words.claimed:
        yield from _declared(text, words.claimed, Weight.PREFERRED)
    if words.equal:
        yield from _declared(text, phrases.EQUAL, Weight.PREFERRED)
    for pattern in (*phrases.DECLARES, phrases.CHOOSE, phrases.SAY, phrases.PREFER):
        yield from _declared(text, pattern, Weight.DECLARED)
    yield from _declared(text, phrases.MARKED, Weight.MARKED)
    for match in phrases.WRONG.finditer(text):
        yield from (Claim(Weight.NAMED, letter, against=True) for letter in letters_in(match[0]))
    found = set(letters_in(text)) & set(letters)
    if phrases.CONCLUDES.search(text) and len(found) == 1 and not NEGATED.search(text):
        yield Claim(Weight.CONCLUDED, found.pop())


def _declared(text: str, pattern: re.Pattern[str], weight: Weight) -> Iterator[Claim]:
    for match in pattern.finditer(text):
        said, first = match[0].replace("not only", ""), match.start("letter") - 1 == match.start()
        if first and phrases.BARRED.search(said):
            continue
        joined = phrases.JOINED.search(text[: match.start()]) if first else None
        several = joined is not None and joined[1] != match["letter"]
        if re.search(r"\bneither\b", said, re.I):
            yield Claim(weight, match["letter"], against=True)
        elif (
            several or _several(text, match.end("letter") + 1, match["letter"]) or re.search(r"\beither\b", said, re.I)
        ):
            yield Claim(weight, "")
        else:
            against = NOT.search(said) or phrases.LESS.search(said) or phrases.AFTERWARDS.match(text[match.end() :])
            yield Claim(weight, match["letter"], bool(against))


def _several(text: str, end: int, letter: str) -> bool:
    other = phrases.WITH.match(text[end:])
    return bool(other and other[1] != letter)


def _predicated(text: str, pattern: re.Pattern[str], weight: Weight, follows: bool) -> Iterator[Claim]:
    """Claims of a predicate: "the closest is X" or "X ... is the closest" or, without a subject, "closest to X"."""
    for match in pattern.finditer(text):
        ways = (_after(text, match, weight), None if follows else _before(text, match, weight))
        found = chain(ways, [_beside(text, match, weight, follows)])
        yield from [claim for claim in found if claim][:1]


def _after(text: str, match: re.Match[str], weight: Weight) -> Claim | None:
    found = _AFTER.match(text[match.end() :])
    if not found or re.search(r"\bthan\b", found[0], re.I):
        return None
    if found[0].startswith(":") and _CLOSED.search(text[: match.start()]):
        return None  # "B is correct: A is too large"
    if _several(text, match.end() + found.end(), found["letter"]):
        return Claim(weight, "")
    less = _BEFORE_BEST.search(text[: match.start()])
    return Claim(weight, found["letter"], bool(NEGATED.search(found[0]) or less))


def _before(text: str, match: re.Match[str], weight: Weight) -> Claim | None:
    """The nearest choice before the predicate is its subject, unless something else stands between."""
    held = list(re.finditer(MENTION, text[: match.start()]))
    if not held:
        return None
    subject = held[-1]
    between, before = text[subject.end() : match.start()], text[: subject.start()]
    if len(between) > _FAR or phrases.OBJECT.search(before) or phrases.BARRED.search(between):
        return None
    joined = phrases.JOINED.search(before)
    if joined and joined[1] != subject[1] and not phrases.OBJECT.search(before[: joined.start()]):
        return None if NEGATED.search(between) or _BETWEEN.search(before) else Claim(weight, "")
    return Claim(weight, subject[1], bool(NEGATED.search(between) or phrases.LESS.search(between)))


def _beside(text: str, match: re.Match[str], weight: Weight, follows: bool) -> Claim | None:
    """ "The first image is most similar to X": the choice is the object, and no other one the subject."""
    found = _BESIDE.match(text[match.end() :])
    if not found or (letters_in(text[: match.start()]) and not follows) or _COMPARED.search(found[0]):
        return None
    end = match.end() + found.end()
    if _several(text, end, found["letter"]):
        return Claim(weight, "")
    return Claim(weight, found["letter"], bool(NEGATED.search(text[:end])))


def _opposed(text: str, pattern: re.Pattern[str], letters: str, equal: bool) -> Iterator[Claim]:
    """What the opposite word is said of is not the answer: "A is further away"."""
    for match in pattern.finditer(text):
        claim = _before(text, match, Weight.DESCRIBED)
        if claim and not claim.letter and (chain := _CHAINED.search(text[: match.start()])):
            found = [letter for letter in letters_in(chain[0]) if letter in letters]
            yield from (Claim(Weight.DESCRIBED, letter, against=True) for letter in found)
        if (than := _THAN.match(text[match.end() :])) and than[1] in letters and not (claim and claim.against):
            yield Claim(Weight.DESCRIBED, than[1])
        if claim and claim.letter and claim.letter in letters and not claim.against:
            yield Claim(Weight.DESCRIBED, claim.letter, against=True)
            if equal:
                yield Claim(Weight.DESCRIBED, letters[-1], against=True)
