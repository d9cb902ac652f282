"""The values of scoring: what reading a record brought, its verdict and score, and those of a point and a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from looktwice.eval.records.judgements import Judgements
from looktwice.eval.records.records import PointRow, Record, RunFolder, SampleRow
from looktwice.pipelines.model import Reply

REASONS = ("unread", "refused", "empty", "cut_off", "filtered", "abstained")
"""Why an answer is UNREADABLE."""


class Verdict(StrEnum):
    """The outcome of one sample; the four are counted apart everywhere.

    HIDDEN is no verdict but its absence: an answer was found and there is no key to compare it with.
    """

    RIGHT = "right"
    WRONG = "wrong"
    UNREADABLE = "unreadable"
    FAILED = "failed"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class ReadResult:
    """What reading a record brought, before it is compared with the key; `judge` names the judge who found it."""

    verdict: Verdict | None = None
    answer: str | None = None
    reason: str = ""
    detail: str = ""
    read: bool = False
    judge: str = ""


@dataclass(frozen=True)
class Score:
    """A verdict and its value in 0..1 (graded tasks have values between); `group` joins samples that count as one."""

    verdict: Verdict
    value: float = 0.0
    group: str = ""

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a score lies in 0..1, found {self.value}")


@dataclass(frozen=True)
class ScoredRecord:
    """One record, read: the answer and its score.

    `reason` is one of REASONS for UNREADABLE, `detail` the sentence or traceback behind a reason or a failure,
    `read` says whether the reader found the answer (else a stage gave it), tokens and `cost` (by list price)
    are those of all its calls.
    `judge` names the judge whose verdict this is, `judged` are its marks by criterion.
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
    judge: str = ""
    judged: Mapping[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The verdict of the score."""
        return self.score.verdict


@dataclass(frozen=True)
class PointScores:
    """Every sample that a point's task has, and what was scored of it: an empty mapping of draws means missing.

    `contestant` and `task` are the labels under which tables show the point.
    """

    point: PointRow
    samples: Mapping[str, SampleRow]
    scored: Mapping[str, Mapping[int, ScoredRecord]]
    reader: str = ""
    contestant: str = ""
    task: str = ""

    @property
    def all(self) -> list[ScoredRecord]:
        """Every scored record of the point."""
        return [scored for draws in self.scored.values() for scored in draws.values()]

    def draws(self, sample: str) -> list[ScoredRecord | None]:
        """One entry per draw that was asked for; None is a record that is missing."""
        held = self.scored.get(sample, {})
        return [held.get(draw) for draw in range(max(self.point.draws, 1, *(d + 1 for d in held)))]

    def only(self, samples: set[str]) -> PointScores:
        """The same for some of the samples: a slice."""
        kept = {name: row for name, row in self.samples.items() if name in samples}
        return replace(self, samples=kept, scored={name: self.scored[name] for name in self.scored if name in samples})


@dataclass(frozen=True)
class RunScores:
    """A run folder, scored: the points in the order in which they were asked, and what judges said of it."""

    folder: RunFolder
    points: tuple[PointScores, ...]
    judged: Judgements = field(default_factory=Judgements)

    @property
    def name(self) -> str:
        """The run's name, which is its folder's."""
        return self.folder.path.resolve().name


def explain_missing_reply(record: Record, replies: Sequence[Reply]) -> ReadResult | None:
    """Why there is nothing to read for a reader or a judge; None where there is a reply."""
    last = replies[-1] if replies else None
    if record.reason or last is None:
        reason = reason_of(record.reason)
        return ReadResult(Verdict.UNREADABLE, reason=reason, detail=record.reason or "no stage asked or answered")
    if last.finish == "filter":
        return ReadResult(Verdict.UNREADABLE, reason="filtered", detail=last.text)
    if last.refusal:
        return ReadResult(Verdict.UNREADABLE, reason="refused", detail=last.refusal)
    if not last.text.strip():
        return ReadResult(Verdict.UNREADABLE, reason="cut_off" if last.finish == "length" else "empty")
    return None


def read_stage_answer(answer: str, letters: tuple[str, ...]) -> ReadResult:
    """An answer that a stage set; one that is no choice is not WRONG but UNREADABLE."""
    if letters and answer.strip() not in letters:
        said = f"the stages answered {answer!r}, which is none of {', '.join(letters)}"
        return ReadResult(Verdict.UNREADABLE, answer, "unread", said)
    return ReadResult(answer=answer)


def reason_of(said: str) -> str:
    """The one of REASONS with which a stage's sentence begins, else "unread"."""
    kind = said.partition(":")[0].strip()
    return kind if kind in REASONS else "unread"
