"""What reading a record brought, before it is compared with the key: an answer, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from looktwice.eval.records import Record
from looktwice.pipelines.model import Reply

__all__ = ["REASONS", "Found", "Verdict", "given", "reason_of", "unanswered"]

REASONS = ("unread", "refused", "empty", "cut_off", "filtered", "abstained")
"""Why an answer is UNREADABLE."""


class Verdict(StrEnum):
    """What became of one sample: four counts that are kept apart everywhere.

    HIDDEN is no verdict but its absence: an answer was found and there is no key to compare it with.
    """

    RIGHT = "right"
    WRONG = "wrong"
    UNREADABLE = "unreadable"
    FAILED = "failed"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class Found:
    """What reading a record brought, before it is compared with the key; `judge` names the judge who found it."""

    verdict: Verdict | None = None
    answer: str | None = None
    reason: str = ""
    detail: str = ""
    read: bool = False
    judge: str = ""


def unanswered(record: Record, replies: Sequence[Reply]) -> Found | None:
    """Why there is nothing to read, for a reader or a judge; None where there is."""
    last = replies[-1] if replies else None
    if record.reason or last is None:
        reason = reason_of(record.reason)
        return Found(Verdict.UNREADABLE, reason=reason, detail=record.reason or "no stage asked or answered")
    if last.finish == "filter":
        return Found(Verdict.UNREADABLE, reason="filtered", detail=last.text)
    if last.refusal:
        return Found(Verdict.UNREADABLE, reason="refused", detail=last.refusal)
    if not last.text.strip():
        return Found(Verdict.UNREADABLE, reason="cut_off" if last.finish == "length" else "empty")
    return None


def given(answer: str, letters: tuple[str, ...]) -> Found:
    """An answer that a stage set; one beyond the choices is nobody's choice, so it is not WRONG but UNREADABLE."""
    if letters and answer.strip() not in letters:
        said = f"the stages answered {answer!r}, which is none of {', '.join(letters)}"
        return Found(Verdict.UNREADABLE, answer, "unread", said)
    return Found(answer=answer)


def reason_of(said: str) -> str:
    """The one of REASONS with which a stage's sentence begins, else "unread"."""
    kind = said.partition(":")[0].strip()
    return kind if kind in REASONS else "unread"
