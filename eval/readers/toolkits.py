"""How two evaluation toolkits read replies to multiple choice, without the random answers with which they end.

Read from their code: VLMEvalKit (`can_infer`, 2026-08) and lmms-eval (`tasks/blink`, 2026-08).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase

_REFUSED = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_NO_REPLY = "Failed to obtain answer via API"
_PUNCTUATION = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_BOLD = re.compile(r"(?:correct )?answer is \*\*([A-D])\*\*", re.I)
_LAST = 4  # words among which VLMEvalKit looks for the letter
_FIRST = re.compile(r"[(\s]*([A-Z])[).\s]*", re.I)


def vlmevalkit(reply: str, choices: Sequence[str]) -> str | None:
    """The letter that VLMEvalKit's rules find; None where it would ask a judge, or says Z.

    Its steps: known refusals; the only choice letter among the words, if it is one of the last four; "the answer is
    **X**"; the only choice whose text occurs in a reply that is at most twice as long as all texts together.
    """
    if _NO_REPLY in reply or any(refused in reply for refused in _REFUSED):
        return None
    letters = ascii_uppercase[: len(choices)]
    words = reply.translate(_PUNCTUATION).split()
    found = [letter for letter in letters if letter in words]
    if len(found) == 1 and words.index(found[0]) >= len(words) - _LAST:
        return found[0]
    if not found and "Z" in words:
        return None
    bold = _BOLD.search(reply)
    if bold and bold[1].upper() in letters:
        return bold[1].upper()
    return _by_text(reply.lower(), choices)


def _by_text(reply: str, choices: Sequence[str]) -> str | None:
    if len(reply) > 2 * sum(map(len, choices)):
        return None
    found = [letter for letter, text in zip(ascii_uppercase, choices, strict=False) if text.lower() in reply]
    return found[0] if len(found) == 1 else None


def lmms_eval(reply: str) -> str | None:
    """The first letter of the reply, whichever it is: "The answer is B" gives T, "answer: C" gives A."""
    found = _FIRST.match(reply.strip())
    return found[1].upper() if found else None
