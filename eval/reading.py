"""What a rule of ours finds in a reply: an answer, or none and the reason."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Reading", "nothing"]


@dataclass(frozen=True)
class Reading:
    """The answer, or None and why: a reason of scoring (unread, refused, empty, cut_off), then what was seen."""

    answer: str | None
    reason: str = ""


def nothing(reply: str) -> Reading:
    """For a reply of which no words are left: it was empty, or ended inside its thoughts."""
    return Reading(None, "cut_off: the reply ends inside its thoughts" if reply.strip() else "empty")
