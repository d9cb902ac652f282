"""The answer after every turn, scored as if that turn had been the last.

Stages record which call ended each turn (`turn_call`, and for a vote the majority so far,
`turn_vote`). Replies are read when a run is scored, so another reader reads the turns again. In a
chain of thought, a turn is a line of the reply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from looktwice.eval.records.records import Record, get_looks
from looktwice.eval.scoring.metrics import TURNS_PREFIX
from looktwice.eval.scoring.verdict import Metric, PointScores, RunScores, ScoredRecord, Verdict
from looktwice.eval.statistics.paired import ValueMatrix
from looktwice.pipelines.config.spec import get_public_path
from looktwice.prompting.wording import ChainOfThought

MAX_TURNS = 12
"""The largest number of turns shown, because later turns come from a few long records; the last
turn is always shown."""
CHAIN_STAGE = get_public_path(ChainOfThought)
LOOKING_REASON = "looking"


@dataclass(frozen=True)
class Turns:
    """The answers that one record would have given after each turn; the last one is its final
    answer. Tokens and cost count everything up to that turn. A turn that ended in a look (tool
    call) has no answer yet: its reason is LOOKING_REASON."""

    sample: str
    scored: tuple[ScoredRecord, ...]

    def at(self, turn: int) -> ScoredRecord:
        """Return the answer after a turn, counted from 0; after its end, a record keeps its last
        answer."""
        return self.scored[min(turn, len(self.scored) - 1)]

    def spent(self, turn: int, tokens: bool) -> float:
        """Return the tokens used up to the end of a turn, or, if `tokens` is false, the number of
        turns so far."""
        scored = self.at(turn)
        return scored.tokens_in + scored.tokens_out if tokens else min(turn + 1, len(self.scored))

    def first(self, holds: Callable[[Turns, int], bool]) -> int:
        """Return the first turn for which `holds` returns True, or else the last turn."""
        end = len(self.scored) - 1
        return next((turn for turn in range(end) if holds(self, turn)), end)


@dataclass(frozen=True)
class ArmTurns:
    """The turns of an arm's records, for every record that has more than one turn and did not fail,
    on samples with a correct answer."""

    scores: PointScores
    records: tuple[Turns, ...]

    @property
    def last(self) -> int:
        """The last turn of the longest record, counted from 0."""
        return max(len(turns.scored) for turns in self.records) - 1

    @property
    def shown_turns(self) -> list[int]:
        """The turns to show: the first `MAX_TURNS`; if there are more, the last turn replaces the
        last of these."""
        return [*range(min(MAX_TURNS - 1, self.last)), self.last]

    @property
    def clusters(self) -> list[str]:
        """The cluster of each record."""
        return self.scores.clusters_of(turns.sample for turns in self.records)

    def mean(self, turn: int, value: Callable[[ScoredRecord], float | None]) -> dict[str, float]:
        """Return, by sample, the mean of a value of the answers after a turn, over the draws that
        have this value."""
        draws = defaultdict[str, list[float]](list)
        for turns in self.records:
            if (number := value(turns.at(turn))) is not None:
                draws[turns.sample].append(number)
        return {sample: fmean(values) for sample, values in draws.items()}

    @cached_property
    def values(self) -> ValueMatrix[int, str]:
        """The score of every sample after each turn, averaged over the sample's draws; NaN if no
        draw has an answer yet."""

        def value(scored: ScoredRecord) -> float | None:
            return None if scored.reason == LOOKING_REASON else scored.score.value

        means = {turn: self.mean(turn, value) for turn in range(self.last + 1)}
        return ValueMatrix.of(means, self.scores.clusters)

    def tokens(self, turn: int) -> float:
        """Return the mean tokens of a sample up to the end of a turn."""
        return fmean(self.mean(turn, lambda scored: scored.tokens_in + scored.tokens_out).values())

    def cost(self, turn: int) -> float | None:
        """Return the mean list price of a sample up to the end of a turn; None if a model has no
        prices."""
        if any(turns.at(turn).cost is None for turns in self.records):
            return None
        return fmean(self.mean(turn, lambda scored: scored.cost or 0.0).values())


def read_turns(run: RunScores) -> list[ArmTurns]:
    """Return the turns of every arm that has several turns, in the run's order."""
    chains, turns = set[str](), defaultdict[str, list[Turns]](list)
    for scores in run.points:
        nodes = (scores.point.spec.get("stages") or {}).values()
        uses = [node.get("use") for node in nodes if isinstance(node, Mapping)]
        chains |= {scores.point.id} if CHAIN_STAGE in uses else set()
    for scores, record in run.records(holding="" if chains else '"turn_call"'):
        final, row = scores.result_of(record), scores.samples.get(record.sample)
        if final is None or final.verdict is Verdict.FAILED or scores.score is None:
            continue
        if row is not None and row.answer is not None:
            cut, looked = list[ScoredRecord](), {look.call for look in get_looks(record)}
            for part in _cut_after_turns(record, scores.point.id in chains):
                scored = scores.score(part, row)
                is_call = scored.answer is None and len(part.calls) - 1 in looked
                cut.append(scored._replace(reason=LOOKING_REASON) if is_call else scored)
            if cut:
                turns[scores.point.id].append(Turns(record.sample, (*cut, final)))
    arms = []
    for name, scores in run.by_id.items():
        if name in turns and (arm := ArmTurns(scores, tuple(turns[name]))).last > 0:
            arms.append(arm)
    return arms


def list_turn_metrics(run: RunScores) -> Iterator[tuple[PointScores, Metric]]:
    """Yield the accuracy after each turn of every arm with several turns, named `turn.1.accuracy`
    and so on."""
    for arm in read_turns(run):
        for turn in arm.shown_turns:
            asked = arm.values.where(arm.values.valid_mask(turn))
            values = dict(zip(asked.units, asked[turn].tolist(), strict=True))
            name = f"{TURNS_PREFIX}{turn + 1}.accuracy"
            yield arm.scores, Metric(name, values, clusters=arm.scores.clusters)


def _cut_after_turns(record: Record, chain: bool) -> Iterator[Record]:
    """Yield the record cut after each turn but the last; for a single call in a chain of thought,
    with its reply cut after each line."""
    measured: Mapping[str, Any] = record.measured or {}
    votes = measured.get("turn_vote")
    for turn, call in enumerate((measured.get("turn_call") or ())[:-1]):
        if isinstance(call, int) and 0 <= call < len(record.calls):
            answer = votes[turn] if votes and turn < len(votes) else None
            reason = "unread: no vote so far" if votes and answer is None else ""
            yield replace(record, calls=record.calls[: call + 1], answer=answer, reason=reason)
    reply = record.calls[0].get("reply") if len(record.calls) == 1 else None
    if measured.get("turn_call") or not chain or not reply or record.answer is not None:
        return
    lines = reply["text"].splitlines()
    ends = [n for n, line in enumerate(lines, 1) if line.strip()][:-1]
    for end in ends[: MAX_TURNS - 1]:
        cut = {**reply, "text": "\n".join(lines[:end]), "finish": "stop"}
        yield replace(record, calls=({**record.calls[0], "reply": cut},))
