"""The rules of the reader `Choice`: declarations, letters in brackets, leading letters and the choices' own texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar

from looktwice.eval.readers.stages import found, texts
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import State

_MARKUP = re.compile(r"</?s>|<\|[a-z_]+\|>|[*_`$]+|\\boxed|\\text")
_NEGATED = re.compile(
    r"\b(?:not|cannot|neither|nor|none|never|incorrect|wrong|rather than|instead of|except|unlikely)\b|n[’']t\b", re.I
)
_DECLARED = re.compile(
    r"\b(?i:answer|choice|option)\s*(?i:(?:is|would be|must be|should be)\s*[:=]?|[:=])\s*"
    r"(?i:(?:option|choice|letter)\s+)?[\"'“]?(?P<open>[(\[{]?)(?P<letter>[A-Z])(?P<close>[)\]}]?)(?P<after>.{0,12})",
    re.S,
)
_BRACKETED = re.compile(r"[(\[]([A-Z])[)\]]")
_BARE = re.compile(r"[\s\"'“(\[{]*(?:(?i:option|choice)\s+)?[(\[]?([A-Z])[)\]}.:,;!\"'”\s]*")
_LED = re.compile(r"\s*[(\[]?([A-Z])[)\].:]\s")
_LITTLE = {"yes", "no", "a", "an", "the", "i", "it"}
"""Words that a reply uses without meaning a choice of that text."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")


def choice_letter(reply: str, choices: list[str]) -> str | None:
    """The letter for a reply to a question with these choices (empty where a choice is no text), or None."""
    letters = ascii_uppercase[: len(choices)]
    plain = _MARKUP.sub("", reply).strip()
    bare = _BARE.fullmatch(plain)
    if bare:
        return bare[1] if bare[1] in letters else None
    declared = _declared(plain, letters)
    if declared is not None:
        return declared or None
    return _bracketed(plain, letters) or _leading(plain, letters) or _named(plain, choices)


def _declared(text: str, letters: str) -> str | None:
    """The letter of the last declaration, "" where it names several or one beyond the choices, None without one."""
    found = [match for match in _DECLARED.finditer(text) if _is_letter(match)]
    if not found:
        return None
    last = found[-1]
    tail = re.match(r"\s*(?:,|/|&|and|or|and/or)\s*\(?([A-Z])\b", text[last.start("after") :])
    if tail and tail[1] in letters and tail[1] != last["letter"]:
        return ""
    return last["letter"] if last["letter"] in letters else ""


def _is_letter(match: re.Match[str]) -> bool:
    """Whether a declared capital stands alone: bracketed, or bare and not the first letter or article of a phrase."""
    if match["open"]:
        return bool(match["close"])
    return bool(re.match(r"$|[.,;:!?\"'”)\n]|\s*(?:$|\n|[-–(]|(?:because|since|as|and|or)\b)", match["after"]))


def _bracketed(text: str, letters: str) -> str | None:
    """The letter in brackets that is alone in the reply, else in the last sentence with one of the last paragraph.

    Lines that open with letters in turn are a list of the choices and say nothing; a negated sentence neither.
    """
    listed = _lists(text)
    lines = [line for line in text.splitlines() if not (listed and _LED.match(line + " "))]
    before, _, last = "\n".join(lines).strip().rpartition("\n\n")
    closing = _naming(last, letters)
    for sentences in (_naming(before, letters) + closing, closing[-1:] if before else []):
        found = {letter for sentence in sentences for letter in _BRACKETED.findall(sentence)} & set(letters)
        if len(found) == 1:
            return None if _NEGATED.search(sentences[-1]) else found.pop()
    return None


def _naming(text: str, letters: str) -> list[str]:
    """The sentences that name a choice by its letter in brackets."""
    return [s for s in _SENTENCE.split(text) if set(_BRACKETED.findall(s)) & set(letters)]


def _lists(text: str) -> bool:
    """Whether lines of the reply open with different letters, as where the choices are gone through."""
    return len({match[1] for line in text.splitlines() if (match := _LED.match(line + " "))}) > 1


def _leading(text: str, letters: str) -> str | None:
    """The letter that opens the reply, unless others stand in brackets or open lines, as in a list of the choices."""
    opens = _LED.match(text + " ")
    if not opens or opens[1] not in letters or _lists(text):
        return None
    return None if set(_BRACKETED.findall(text)) & set(letters) - {opens[1]} else opens[1]


def _named(text: str, choices: list[str]) -> str | None:
    """The letter of the one choice that the reply begins with, or else of the only one that it names anywhere."""
    folded = text.casefold()
    starts = [i for i, choice in enumerate(choices) if choice and re.match(_word(choice) + r"\s*([.,;:!]|$)", folded)]
    if len(starts) == 1:
        return ascii_uppercase[starts[0]]
    found = _mentions(folded, choices)
    said = [s for s in _SENTENCE.split(folded) if found and re.search(_word(choices[found[0]]), s)]
    if len(found) != 1 or choices[found[0]].casefold() in _LITTLE or any(_NEGATED.search(s) for s in said):
        return None
    return ascii_uppercase[found[0]]


def _mentions(text: str, choices: list[str]) -> list[int]:
    """The numbers of the choices that are named; one inside a longer one that is named too does not count."""
    held = [(i, choice.casefold()) for i, choice in enumerate(choices) if choice]
    found = [(i, choice) for i, choice in held if re.search(_word(choice), text)]
    return [i for i, choice in found if not any(choice != other and choice in other for _, other in found)]


def _word(choice: str) -> str:
    return rf"(?<!\w){re.escape(choice.casefold())}(?!\w)"


@dataclass(frozen=True)
class Choice:
    """The letter of one of the choices, from a reply in free words; no answer where the words leave it open.

    In this order: a reply that is a letter and nothing more; the last declaration ("the answer is (B)",
    "Answer: B"); the only letter in brackets, of the whole reply or of the last paragraph's last sentence with
    one; a letter that opens the reply ("B. the third image"); the choice whose text the reply begins with, or the
    only one that it names. What is negated, a list of the choices and a declaration of two letters ("A or B") are
    no answer, nor is a letter beyond the choices. For samples with choices: see `WholeReply` for open answers.
    """

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return found(state, choice_letter(state.reply, texts(state)))
