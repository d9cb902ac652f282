"""The answer at every turn of a sample, read and scored as if it had been the last.

Stages say which call ended each turn (`turn_call`, and for a vote the majority so far,
`turn_vote`); replies are read when a run is scored, so another reader reads them anew. Of a chain
of thought, a turn is a line of the reply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from looktwice.eval.records.records import Record
from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.measurements import TURNS
from looktwice.eval.scoring.row import Row, empty_row, fill
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, Verdict
from looktwice.pipelines.config.spec import public_path
from looktwice.prompting.wording import ChainOfThought

MOST_TURNS = 12
"""Later turns are those of a single long record, and the last one is shown in any case."""


@dataclass(frozen=True)
class Turns:
    """What one record would have answered after each turn, the last as it did; tokens and cost are
    those until then."""

    sample: str
    scored: tuple[ScoredRecord, ...]

    def at(self, turn: int) -> ScoredRecord:
        """The answer after a turn, counted from 0; one that ended earlier keeps its last."""
        return self.scored[min(turn, len(self.scored) - 1)]


@dataclass(frozen=True)
class TurnsOfArm:
    """The turns of every record of an arm that made more than one and did not fail, on samples with
    a key."""

    scores: PointScores
    records: tuple[Turns, ...]

    @property
    def most(self) -> int:
        """The turns of the longest record, at most `MOST_TURNS`."""
        return min(MOST_TURNS, max(len(each.scored) for each in self.records))

    def index(self, turn: int) -> int:
        """The turn that is shown at a place: the last place shows the last turn."""
        return turn if turn + 1 < self.most else max(len(each.scored) for each in self.records) - 1

    def values(self, turn: int) -> dict[str, float]:
        """The value of every sample after a turn, the mean over its draws."""
        return self._mean(turn, lambda scored: scored.score.value)

    def tokens(self, turn: int) -> float:
        """Tokens of a sample until the end of a turn, the mean over samples."""
        return fmean(self._mean(turn, lambda scored: scored.tokens_in + scored.tokens_out).values())

    def cost(self, turn: int) -> float | None:
        """The list price of a sample until then; None where a model has no prices."""
        if any(each.at(turn).cost is None for each in self.records):
            return None
        return fmean(self._mean(turn, lambda scored: scored.cost or 0.0).values())

    def changed(self, before: int, after: int) -> tuple[list[bool], list[bool]]:
        """Of each record whether it was not right and became right between two turns, and whether
        it ceased to be."""
        pairs = [(_right(each.at(before)), _right(each.at(after))) for each in self.records]
        return [pair == (False, True) for pair in pairs], [pair == (True, False) for pair in pairs]

    def _mean(self, turn: int, value: Any) -> dict[str, float]:
        found = defaultdict[str, list[float]](list)
        for each in self.records:
            found[each.sample].append(value(each.at(turn)))
        return {sample: fmean(values) for sample, values in found.items()}


def read_turns(run: RunScores) -> list[TurnsOfArm]:
    """The turns of every arm of a run that has more than one, in the run's order."""
    points = run.by_id
    chains = {name for name, scores in points.items() if _has_chain(scores)}
    found = defaultdict[str, list[Turns]](list)
    for scores, record in run.records(holding="" if chains else '"turn_call"'):
        if turns := _turns_of(scores, record, scores.point.id in chains):
            found[scores.point.id].append(turns)
    arms = [TurnsOfArm(points[name], tuple(found[name])) for name in points if name in found]
    return [arm for arm in arms if arm.most > 1]


def turn_rows(run: RunScores) -> Iterator[Row]:
    """A row with the accuracy after each turn of every arm that has several: `turn.1.accuracy`,
    from 1."""
    for arm in read_turns(run):
        for place in range(arm.most):
            name = f"{TURNS}{arm.index(place) + 1}.accuracy"
            metric = Metric(name, arm.values(arm.index(place)), clusters=arm.scores.clusters)
            yield fill(empty_row(run, arm.scores), metric)


def _turns_of(scores: PointScores, record: Record, chain: bool) -> Turns | None:
    """The turns of one record; None for one that failed, has no key, or is not scored."""
    final, row = scores.result_of(record), scores.samples.get(record.sample)
    if (
        final is None
        or row is None
        or row.answer is None
        or final.verdict is Verdict.FAILED
        or scores.score is None
    ):
        return None
    cut = list(
        _cut(record)
        if (record.measured or {}).get("turn_call")
        else _lines(record)
        if chain
        else ()
    )
    score = scores.score
    return Turns(record.sample, (*(score(each, row) for each in cut), final)) if cut else None


def _cut(record: Record) -> Iterator[Record]:
    """The record as it stood after each turn but the last."""
    measured: Mapping[str, Any] = record.measured or {}
    calls: Sequence[int | None] = measured["turn_call"]
    votes = measured.get("turn_vote")
    for turn, call in enumerate(calls[:-1]):
        if not isinstance(call, int) or not 0 <= call < len(record.calls):
            continue
        answer = votes[turn] if votes and turn < len(votes) else None
        reason = "unread: no vote so far" if votes and answer is None else ""
        yield replace(record, calls=record.calls[: call + 1], answer=answer, reason=reason)


def _lines(record: Record) -> Iterator[Record]:
    """The record of a single call as if its reply had ended after each line but the last."""
    if (
        len(record.calls) != 1
        or not (reply := record.calls[0].get("reply"))
        or record.answer is not None
    ):
        return
    lines = reply["text"].splitlines()
    ends = [n for n, line in enumerate(lines, 1) if line.strip()][:-1]
    for end in ends[: MOST_TURNS - 1]:
        cut = {**reply, "text": "\n".join(lines[:end]), "finish": "stop"}
        yield replace(record, calls=({**record.calls[0], "reply": cut},))


def _right(scored: ScoredRecord) -> bool:
    return scored.verdict is Verdict.RIGHT


def _has_chain(scores: PointScores) -> bool:
    stages = (scores.point.spec.get("stages") or {}).values()
    return any(
        isinstance(node, Mapping) and node.get("use") == public_path(ChainOfThought)
        for node in stages
    )
