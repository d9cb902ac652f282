"""The outcome of one record: the result of reading it, its verdict and score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

UNJUDGED = "unjudged"
"""The reply needs a judge's grade and has none yet, so it counts in no accuracy."""
ABSTAINED = "abstained"
"""A stage gave no answer because it found no evidence for one."""


class Verdict(StrEnum):
    """The outcome of one sample; each kind is counted separately everywhere.

    HIDDEN is the absence of a verdict: there is an answer, but no correct answer to compare it
    with.
    """

    RIGHT = "right"
    WRONG = "wrong"
    UNREADABLE = "unreadable"
    FAILED = "failed"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The result of extracting an answer, before it is compared; `judge` names the judge that found
    it."""

    verdict: Verdict | None = None
    answer: str | None = None
    reason: str = ""
    detail: str = ""
    read: bool = False
    judge: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """A verdict and a value in 0..1; samples of one `group` count as one unit."""

    verdict: Verdict
    value: float = 0.0
    group: str = ""

    @classmethod
    def of(cls, right: bool, group: str = "") -> Score:
        """Return the score of an answer that is right or wrong."""
        return cls(Verdict.RIGHT if right else Verdict.WRONG, float(right), group)

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a score must lie in 0..1, got {self.value}")


@dataclass(frozen=True, slots=True)
class ScoredRecord:
    """The answer extracted from one record, and its score.

    `reason` is one of REASONS for UNREADABLE, `detail` the sentence or traceback behind a reason or
    a failure. `read` is True if the answer was extracted from a reply (otherwise a stage set it).
    Tokens and `cost` (by list price) are those of all its `calls`. `judge` names the judge whose
    verdict this is, `judged` holds its scores by criterion. `measured` are the record's
    measurements, with its `confidence` if a stage gave one. `request` is the digest of what was
    sent (`Record.request`), `kept` are the notes of stages that found nothing to do.
    """

    sample: str
    draw: int
    answer: str | None
    score: Score
    reason: str = ""
    detail: str = ""
    read: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    calls: int = 0
    judge: str = ""
    judged: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    request: bytes = b""
    kept: Sequence[str] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict of the score."""
        return self.score.verdict

    @property
    def graded_value(self) -> float | None:
        """The value of the score; None if only a judge could give one and none has."""
        return None if self.reason == UNJUDGED else self.score.value
