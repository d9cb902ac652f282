"""Our own reading of a reply to a question with choices: which choice it claims, or why it claims none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from looktwice.eval.readers.claims import Claim, Weight, claims_of, sentences_of
from looktwice.eval.readers.clean import plain, without_echo
from looktwice.eval.readers.mentions import MENTION, letters_in, named
from looktwice.eval.readers.phrases import NEGATED, NOT_YET, UNDECIDED
from looktwice.eval.readers.subtask_words import predicates
from looktwice.eval.readers.vocabulary import REFUSED


@dataclass(frozen=True)
class Reading:
    """The answer, or None and why: a reason of scoring (unread, refused, empty, cut_off), then what was seen."""

    answer: str | None
    reason: str = ""


def nothing(reply: str) -> Reading:
    """For a reply of which no words are left: it was empty, or ended inside its thoughts."""
    return Reading(None, "cut_off: the reply ends inside its thoughts" if reply.strip() else "empty")


_ONLY = re.compile(rf"\W*(?:(?:the |is |it is |it's )*{MENTION})+\W*", re.I)
_LIST = re.compile(
    rf"[^\w\u2705\u2713\u2714\u2611]*(?:{MENTION}(?:[^\w\u2705\u2713\u2714\u2611=]|\b(?:and|or)\b)*)+", re.I
)
_VERDICT = re.compile(
    rf"(?:^|[\u274c\u2717\u2718])[^\w\n]*{MENTION}[^\n\u27e6]*?"
    r"(?:[-:(\u2013\u2014]\s?(?:yes|correct|true)[^\w\n]*$|[\u2705\u2713\u2714\u2611])",
    re.I | re.M,
)
_LETTER = re.compile(r"[\W_]*([a-z])[\W_]*", re.I)
_LEADS = re.compile(
    rf"^[\W_]*?(?:option\s+|choice\s+)?{MENTION}(?=\s*(?:[.:;!)\n-]|$)|\s+[\d.,]+(?:\s*\n|\s*$|\.)"
    r"|,\s+(?!which|that|who|is|and|or)|\s+(?:because|since|as)\b)",
    re.I,
)
_ITEM = re.compile(r"^\W*(?:\d+\W+)?(?:option |image |picture |point )?\(?([A-H])[).:](?:\s|$)", re.I)
_SECOND = re.compile(r"\s\(?[A-H][).:]\s+\S")  # "A. red B. blue"
_HEAD = re.compile(rf"\W*(?:\d+\W+)?{MENTION}\s*:")
_FIRST = re.compile(rf"^\W*?{MENTION}")
_SERIES = re.compile(rf"(?:\s*,\s*{MENTION})*\s*,?\s*(?:and|or|&)\s*(?:the )?{MENTION}", re.I)  # "A, B and C are ..."
_ALONE = re.compile(rf"[\W\d]*{MENTION}(?: \d+)?[^\w:]*")
_CONTRAST = re.compile(
    rf"(?:(?:,|;|\(|^)\s*(?:and |but )?not|\brather than|\binstead of) (?:an? |the |in )*{MENTION}\s*[,;]?", re.I
)
_CUT = re.compile(r"\n\s*[A-Z]\Z")
_DENIED = re.compile(
    r"\b(?:is|are|was|were)(?: not|n't)\b"
    r"(?! (?:\w+ )?(?:visible|shown|present|pictured|clear|possible|enough|sure|applicable))"
    r"|\b(?:does|do) not (?:appear|seem) to be\b(?=[^.]*\b(?:behind|in front|under|beneath|above|on top|next to|beside"
    r"|inside|touching|to the (?:left|right))\b)(?![^.]*\b(?:visible|present|shown)\b)",
    re.I,
)
_UNSURE = re.compile(
    r"\b(?:unclear|not clear|uncertain|not sure|enough (?:context|information)|no (?:way|information))\b|\?", re.I
)
_AUXILIARY = {
    "is", "are", "was", "were", "do", "does", "did", "has", "have", "can", "could", "will", "would", "a", "an", "the",
    "of", "in", "this", "that", "image", "there", "it",
}  # fmt: skip


def read_choice(reply: str, choices: Sequence[str], subtask: str = "", question: str = "") -> Reading:
    """The letter of the choice that a reply gives; `choices` are texts, empty where one is no text.

    In this order: a reply that is a choice and nothing more; "MY_ANSWER: X"; what is declared last ("the answer is
    X", "I choose X", a line of its own); the choice that the reply opens with; what the subtask's words make the
    answer ("X is closer"); a conclusion that names one choice; weaker descriptions; the only choice that is named;
    the only one that is not ruled out. Several at once, none of them, letters beyond the choices, questions,
    conditions and refusals are no answer. To yes and no, a statement may answer as well.
    """
    asked = question if [choice.casefold() for choice in choices] == ["yes", "no"] else None  # else it has no say
    return _read(reply, tuple(choices), subtask, asked)


@lru_cache(maxsize=8192)  # models say the same of many questions
def _read(reply: str, choices: tuple[str, ...], subtask: str, question: str | None) -> Reading:
    text = plain(reply)
    if not text:
        return nothing(reply)
    name = named(choices)
    text = without_echo(text, choices)
    if not text:
        return _known("", name.letters)
    written = name(text)
    held = set(letters_in(written))
    if len(held) == 1 and _ONLY.fullmatch(written):
        return _known(held.pop(), name.letters)
    if len(held) > 1 and _LIST.fullmatch(written):
        return _known("", name.letters)
    if bare := _LETTER.fullmatch(text):
        return _known(bare[1].upper(), name.letters)
    found = _weighed(list(_claims(text, written, name.letters, subtask)), written, name.letters)
    if found.answer is None and question is not None:
        return _stated(text, question) or found
    return found


def _claims(text: str, written: str, letters: str, subtask: str) -> Iterator[Claim]:
    words = predicates(subtask)
    for sentence in sentences_of(written):
        yield from claims_of(sentence, letters, words)
    yield from _opening(text, written)
    yield from _alone(text, written)
    yield from _ticked(written)
    yield from _named_once(written, letters)


def _opening(text: str, written: str) -> Iterator[Claim]:
    """The choice at the beginning, but not of a text that goes through the choices line by line."""
    lead = _LEADS.match(written)
    items = {found[1] for line in text.splitlines() if (found := _ITEM.match(line))}
    items |= {found[1] for line in written.splitlines() if (found := _HEAD.match(line))}
    if lead is None and _ITEM.match(text) and not _SECOND.search(text):
        lead = _FIRST.match(written)
    if lead and len(items) < 2 and not _SERIES.match(written[lead.end(1) + 1 :]):
        yield Claim(Weight.OPENED, lead[1])


def _alone(text: str, written: str) -> Iterator[Claim]:
    """A line that is a choice and nothing more, where no other line is another one."""
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    alone = {found[1] for line in lines if (found := _ALONE.fullmatch(line))}
    if len(alone) == 1 and len(lines) > 1:
        cut = _CUT.search(text)  # a last letter may begin a word that was cut off
        yield Claim(Weight.CONCLUDED if cut else Weight.DECLARED, alone.pop())


def _ticked(written: str) -> Iterator[Claim]:
    """The only choice of a list that is ticked or has "Yes", "Correct" or "True" behind it."""
    ticked = set(_VERDICT.findall(written))
    if len(ticked) == 1 and set(letters_in(written)) > ticked:
        yield Claim(Weight.DECLARED, ticked.pop())


def _named_once(written: str, letters: str) -> Iterator[Claim]:
    written = _CONTRAST.sub("", written)
    said = [sentence for sentence in sentences_of(written) if set(letters_in(sentence)) & set(letters)]
    whole = {letter for sentence in said for letter in letters_in(sentence)} & set(letters)
    if len(whole) == 1 and not NEGATED.search(said[-1]) and not NOT_YET.search(said[-1]):
        yield Claim(Weight.NAMED, whole.pop())


def _weighed(claims: Sequence[Claim], written: str, letters: str) -> Reading:
    """The last of the weightiest claims; weak ones must agree, and count for nothing where the reply cannot tell."""
    undecided = bool(UNDECIDED.search(written))
    claims = [claim for claim in claims if claim.weight >= Weight.DECLARED or claim.letter in letters]
    against = {claim.letter for claim in claims if claim.against}
    for weight in sorted(Weight, reverse=True):
        weak = weight <= Weight.DESCRIBED
        held = [claim.letter for claim in claims if claim.weight is weight and not claim.against]
        if not held or (weak and (undecided or len(set(held)) > 1)) or (weight is Weight.NAMED and held[-1] in against):
            continue
        if len(set(held)) > 2 and held.count(held[-1]) < 2:
            return _known("", letters)
        return _known(held[-1], letters)
    if undecided:
        return Reading(None, "refused: it says that it cannot tell")
    left = set(letters) - against
    if len(left) == 1:
        return Reading(left.pop())
    return Reading(None, "refused" if REFUSED.search(written) else "unread: no choice is declared")


def _known(letter: str, letters: str) -> Reading:
    if not letter:
        return Reading(None, "unread: it names several choices, or none of them")
    if letter not in letters:
        return Reading(None, f"unread: it names {letter}, which is not among {', '.join(letters)}")
    return Reading(letter)


def _stated(text: str, question: str) -> Reading | None:
    """A statement in place of yes or no: a negated one says no, one with all the words of the question yes."""
    if REFUSED.search(text) or UNDECIDED.search(text) or _UNSURE.search(text):
        return None
    asked = set(re.findall(r"\w+", question.casefold())) - _AUXILIARY
    for sentence in reversed(sentences_of(text)):
        if asked <= set(re.findall(r"\w+", sentence.casefold())):
            if _DENIED.search(sentence):
                return Reading("B")
            if asked:
                return Reading("A")
    return None
