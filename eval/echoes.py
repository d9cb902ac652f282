"""Takes from a reply what it repeats of the question before it answers: the question itself and the list of choices."""

from __future__ import annotations

import re
from functools import lru_cache
from string import ascii_uppercase

__all__ = ["without_echo"]

_QUESTION = re.compile(r"\A(?:q(?:uestion)?\s*[:.]\s*)?[^?\n]{3,300}\?\s+(?:a(?:nswer)?\s*:\s*)?(?=[\w(])", re.I)
_HEADING = r"\A(?:[^\n]{0,99}\b(?:choices|options)\b[^\w\n]*\s)?\W*"
_PAIR = re.compile(
    r"(?:^|(?<=[.!?]\s))(?:between|(?:out )?of|comparing|looking at|considering)\b[^,.:;\n]{0,60}?\b(?:and|or)\b"
    r"[^,.:;\n]{0,40}, (?=\w)",
    re.I | re.M,
)


def without_echo(text: str, choices: tuple[str, ...]) -> str:
    """The plain words of a reply from where it says something of its own; nothing of one that is a list of choices.

    "Between A and B, " at the beginning of a sentence repeats the question as well.
    """
    if question := _QUESTION.match(text):
        text = text[question.end() :]
    if (listed := _listed(choices)) and (found := listed.match(text)):
        text = text[found.end() :]
    return _PAIR.sub("", text)


@lru_cache(maxsize=4096)
def _listed(choices: tuple[str, ...]) -> re.Pattern[str] | None:
    """All choices in turn with their letters, as a question lists them; None where a choice has no text."""
    if len(choices) < 2 or not all(choices):
        return None
    items = [
        rf"(?:\({letter}\)|\b{letter}[.):])\s*" + r"\s+".join(map(re.escape, text.split()))
        for letter, text in zip(ascii_uppercase, choices, strict=False)
    ]
    return re.compile(_HEADING + r"[\s,;.]+".join(items) + r"(?!\w)[\s,;.]*", re.I)
