"""Claims that a single sentence of a reply makes about the choices: which choice it declares,
prefers, describes or rules out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from itertools import chain

from looktwice.eval.readers import phrases
from looktwice.eval.readers.mentions import TAG, find_tagged_letters
from looktwice.eval.readers.phrases import (
    CHOICE_TAG,
    CLAUSE_CHARACTER,
    COPULA,
    NEGATED_PATTERN,
    NEGATION_PATTERN,
    PHRASE_CHARACTER,
)
from looktwice.eval.readers.vocabulary import (
    AnswerWords,
    Match,
    Pattern,
    Texts,
    get_answer_words,
    pattern,
)

_OPEN_COLON_PATTERN = pattern(
    r"(:|\b(?:is|be))\s*\n\s*(?![^\n]*\n\s*[^\w\n\u27e6]{0,9}(?:option |choice )?\u27e6)"
)
_SENTENCE_END_PATTERN = re.compile(r"(?<=[.!?;])\s+(?!\))|\n+")
_BETWEEN_CHOICES_PATTERN = pattern(rf"\bbetween\s+{TAG}[^.]*$")
_CHOICE_AFTER_COPULA_PATTERN = pattern(rf"{CLAUSE_CHARACTER}{{0,110}}?{COPULA}{CHOICE_TAG}")
_OBJECT_PATTERN = pattern(
    rf"\s*(?:{PHRASE_CHARACTER}{{0,30}}?\b(?:to|with|as|by|of|in|for)\b|is|:)?\s*{PHRASE_CHARACTER}{{0,25}}?{CHOICE_TAG}"
)
_COMPARISON_WORD_PATTERN = pattern(r"\b(?:than|from|compared)\b")
_NEGATED_SUPERLATIVE_PATTERN = pattern(r"\b(?:least|less|not)\s+(?:the\s+)?$")
_THAN_CHOICE_PATTERN = pattern(
    rf"{PHRASE_CHARACTER}{{0,40}}?\bthan {PHRASE_CHARACTER}{{0,40}}?{TAG}"
)
_TAGS_JOINED_PATTERN = pattern(
    rf"(?:{TAG}(?:\s|,|and\b|or\b|&|the\b)*){{2,}}{PHRASE_CHARACTER}{{0,40}}$"
)
_PREDICATE_OF_TAG_PATTERN = pattern(r"\u27e7 (?:is|was|looks|seems|appears)(?: \w+ly)? (?:the )?$")
_MAX_NEAR_DISTANCE = 60  # characters between a predicate and the choice that it describes
_MAX_SUBJECT_DISTANCE = 220  # characters between a subject and its predicate
# characters of a sentence; the time to search one grows with their square
_MAX_SENTENCE_LENGTH = 4000


class Weight(IntEnum):
    """The strength of a claim: the highest weight decides, and among equals the last claim.

    STATED is a plain statement about a choice itself ("⟦A⟧ is closer"), PREFERRED a statement in
    the reasoning about a choice ("the head marked by ⟦A⟧ looks larger and closer").
    """

    NAMED = 1
    DESCRIBED = 2
    CONCLUDED = 3
    PREFERRED = 4
    STATED = 5
    OPENED = 6
    DECLARED = 7
    MARKED = 8


@dataclass(frozen=True)
class Claim:
    """A claim for or against a choice; `letter` is empty if it concerns several choices or none."""

    weight: Weight
    letter: str
    is_against: bool = False


Claims = Iterator[Claim]


@lru_cache(maxsize=16)  # several rules split the same reply
def split_sentences(text: str) -> Texts:
    """Split a text into sentences. A line that ends with a colon is joined with the next line,
    unless the next line begins a list.

    Of a sentence that never ends, such as models write when they repeat themselves, only the last
    characters are kept.
    """
    if "\n" in text:
        text = _OPEN_COLON_PATTERN.sub(r"\1 ", text)
    return tuple(
        part.strip()[-_MAX_SENTENCE_LENGTH:]
        for part in _SENTENCE_END_PATTERN.split(text)
        if part.strip()
    )


@lru_cache(maxsize=16384)  # many replies share sentences once their choices are tagged
def find_claims(sentence: str, letters: str, subtask: str) -> tuple[Claim, ...]:
    """Return the claims of one sentence in which the choices are tagged (see `mentions`)."""
    return tuple(_collect_sentence_claims(sentence, letters, get_answer_words(subtask)))


def _collect_sentence_claims(sentence: str, letters: str, words: AnswerWords) -> Claims:
    forced = bool(phrases.FORCED_CHOICE_PATTERN.search(sentence))
    text = sentence if forced else phrases.SUBORDINATE_CLAUSE_PATTERN.sub("", sentence)
    if phrases.NO_SINGLE_CHOICE_PATTERN.search(text) and not forced:
        yield Claim(Weight.PREFERRED, "")
    if not find_tagged_letters(text) or (
        phrases.UNDECIDED_SENTENCE_PATTERN.search(text) and not forced
    ):
        return
    yield from _find_claims_by_predicate(text, words.strong_words, Weight.PREFERRED, words)
    yield from _find_claims_by_comparison(text, words.strong_words, letters, words.allows_equality)
    if words.weak_words:
        yield from _find_claims_by_predicate(text, words.weak_words, Weight.DESCRIBED, words)
    if words.opposite_words:
        yield from _find_claims_by_opposite(
            text, words.opposite_words, letters, words.allows_equality
        )
    if words.claim_pattern:
        yield from _find_claims_by_phrase(text, words.claim_pattern, Weight.PREFERRED)
    if words.allows_equality:
        yield from _find_claims_by_phrase(text, phrases.EQUALITY_PATTERN, Weight.STATED)
    for wording in (
        *phrases.DECLARATION_PATTERNS,
        phrases.CHOOSING_PATTERN,
        phrases.WOULD_SAY_PATTERN,
        phrases.PREFERENCE_PATTERN,
    ):
        yield from _find_claims_by_phrase(text, wording, Weight.DECLARED)
    yield from _find_claims_by_phrase(text, phrases.MARKED_ANSWER_PATTERN, Weight.MARKED)
    settled = chain.from_iterable(
        wording.finditer(text) for wording in phrases.CONTRASTED_CHOICE_PATTERNS
    )
    yield from (Claim(Weight.DECLARED, match["letter"]) for match in settled)
    for match in phrases.WRONG_CHOICE_PATTERN.finditer(text):
        yield from (
            Claim(Weight.NAMED, letter, is_against=True) for letter in find_tagged_letters(match[0])
        )
    mentioned = set(find_tagged_letters(text)) & set(letters)
    if (
        phrases.CONCLUSION_PATTERN.search(text)
        and len(mentioned) == 1
        and not NEGATED_PATTERN.search(text)
    ):
        yield Claim(Weight.CONCLUDED, mentioned.pop())


def _find_claims_by_phrase(text: str, wording: Pattern, weight: Weight) -> Claims:
    for match in wording.finditer(text):
        phrase, first = match[0].replace("not only", ""), match.start("letter") - 1 == match.start()
        if first and phrases.LINK_BREAKERS_PATTERN.search(phrase):
            continue
        joined = phrases.FIRST_OF_PAIR_PATTERN.search(text[: match.start()]) if first else None
        several = (joined is not None and joined[1] != match["letter"]) or _names_another(
            text, match.end("letter") + 1, match["letter"]
        )
        if re.search(r"\bneither\b", phrase, re.I):
            yield Claim(weight, match["letter"], is_against=True)
        elif several or re.search(r"\beither\b", phrase, re.I):
            yield Claim(weight, "")
        else:
            against = (
                NEGATION_PATTERN.search(phrase)
                or phrases.LEAST_LIKELY_PATTERN.search(phrase)
                or phrases.TRAILING_NEGATION_PATTERN.match(text[match.end() :])
            )
            yield Claim(weight, match["letter"], bool(against))


def _names_another(text: str, end: int, letter: str) -> bool:
    neighbour = phrases.SECOND_CHOICE_PATTERN.match(text[end:])
    return bool(neighbour and neighbour[1] != letter)


def _find_claims_by_predicate(
    text: str, predicate: Pattern, weight: Weight, words: AnswerWords
) -> Claims:
    """Yield the claims that a predicate makes: "the closest is X", "X ... is the closest" or,
    without a subject, "closest to X"."""
    for match in predicate.finditer(text):
        start = max(text.rfind(sign, 0, match.start()) for sign in ",;:") + 1
        end = text.find(",", match.end())
        if phrases.ILLUSION_PATTERN.search(
            text[start : end if end >= 0 else None]
        ):  # in its clause
            continue
        before = (
            None
            if words.choice_follows
            else _find_subject_claim(text, match, weight, words.allows_equality)
        )
        readings = (
            _find_claim_after(text, match, weight),
            before,
            _find_object_claim(text, match, weight, words.choice_follows),
        )
        for claim in [claim for claim in readings if claim][:1]:
            yield replace(claim, weight=weight) if words.choice_follows else claim


def _find_claim_after(text: str, match: Match, weight: Weight) -> Claim | None:
    choice = _CHOICE_AFTER_COPULA_PATTERN.match(text[match.end() :])
    if not choice or re.search(r"\bthan\b", choice[0], re.I):
        return None
    if choice[0].startswith(":") and _PREDICATE_OF_TAG_PATTERN.search(text[: match.start()]):
        return None  # "B is correct: A is too large"
    negated = _NEGATED_SUPERLATIVE_PATTERN.search(text[: match.start()])
    if (
        weight is Weight.PREFERRED
        and len(choice[0]) <= _MAX_NEAR_DISTANCE
        and phrases.begins_main_clause(text[: match.start()])
    ):
        weight = Weight.STATED
    if _names_another(text, match.end() + choice.end(), choice["letter"]):
        return Claim(weight, "")
    return Claim(weight, choice["letter"], bool(NEGATED_PATTERN.search(choice[0]) or negated))


def _find_subject_claim(
    text: str, match: Match, weight: Weight, equal: bool = False
) -> Claim | None:
    """Return a claim about the subject of a predicate, which is the nearest choice before it,
    unless another subject follows that choice.

    If a choice may mean that the others do not differ (`equal`), a sentence about an appearance ("A
    looks darker") is not a plain statement.
    """
    mentions = list(re.finditer(TAG, text[: match.start()]))
    if not mentions:
        return None
    subject = mentions[-1]
    between, before = text[subject.end() : match.start()], text[: subject.start()]
    if (
        len(between) > _MAX_SUBJECT_DISTANCE
        or phrases.COMPARED_WITH_PATTERN.search(before)
        or phrases.LINK_BREAKERS_PATTERN.search(between)
    ):
        return None
    joined = phrases.FIRST_OF_PAIR_PATTERN.search(before)
    if (
        joined
        and joined[1] != subject[1]
        and not phrases.COMPARED_WITH_PATTERN.search(before[: joined.start()])
    ):
        return (
            None
            if NEGATED_PATTERN.search(between) or _BETWEEN_CHOICES_PATTERN.search(before)
            else Claim(weight, "")
        )
    plain = phrases.DIRECT_LINK_PATTERN.fullmatch(between) and not (
        equal and phrases.APPEARANCE_PATTERN.search(between)
    )
    if weight is Weight.PREFERRED and plain and phrases.begins_main_clause(before):
        weight = Weight.STATED
    return Claim(
        weight,
        subject[1],
        bool(NEGATED_PATTERN.search(between) or phrases.LEAST_LIKELY_PATTERN.search(between)),
    )


def _find_object_claim(text: str, match: Match, weight: Weight, follows: bool) -> Claim | None:
    """Return a claim for the object of a predicate: "The first image is most similar to X"; None if
    another choice is the subject."""
    choice = _OBJECT_PATTERN.match(text[match.end() :])
    if (
        not choice
        or (find_tagged_letters(text[: match.start()]) and not follows)
        or _COMPARISON_WORD_PATTERN.search(choice[0])
    ):
        return None
    end = match.end() + choice.end()
    if _names_another(text, end, choice["letter"]):
        return Claim(weight, "")
    return Claim(weight, choice["letter"], bool(NEGATED_PATTERN.search(text[:end])))


def _find_claims_by_comparison(text: str, predicate: Pattern, letters: str, equal: bool) -> Claims:
    """Yield claims against X in "... is darker than X", if the subject is not named, and against
    the choice "about the same"."""
    for match in predicate.finditer(text):
        before, than = text[: match.start()], _THAN_CHOICE_PATTERN.match(text[match.end() :])
        if than and not find_tagged_letters(before) and not NEGATED_PATTERN.search(before):
            yield from _rule_out(than[1] + letters[-1] * equal)


def _find_claims_by_opposite(text: str, opposite: Pattern, letters: str, equal: bool) -> Claims:
    """Yield claims against a choice that an opposite word describes ("A is further away"), and for
    the choice that it is compared with ("further away than B")."""
    for match in opposite.finditer(text):
        claim = _find_subject_claim(text, match, Weight.DESCRIBED)
        if (
            claim
            and not claim.letter
            and (joined := _TAGS_JOINED_PATTERN.search(text[: match.start()]))
        ):
            yield from _rule_out(filter(letters.__contains__, find_tagged_letters(joined[0])))
        if (
            (than := _THAN_CHOICE_PATTERN.match(text[match.end() :]))
            and than[1] in letters
            and not (claim and claim.is_against)
        ):
            yield Claim(Weight.DESCRIBED, than[1])
        if claim and claim.letter and claim.letter in letters and not claim.is_against:
            yield from _rule_out(claim.letter + letters[-1] * equal)


def _rule_out(letters: Iterable[str]) -> Claims:
    return (Claim(Weight.DESCRIBED, letter, is_against=True) for letter in letters)
