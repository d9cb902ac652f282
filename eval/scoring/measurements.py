"""What stages measured on the samples (`State.measured`), as metrics with tests and as parts of the
samples; and the answer at every turn, scored as if it had been the last.

Stages say which call ended each turn (`turn_call`, and for a vote the majority so far,
`turn_vote`); replies are read when a run is scored, so another reader reads them anew. Of a chain
of thought, a turn is a line of the reply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from statistics import fmean
from typing import Any

import numpy as np

from looktwice.eval.records.records import Record
from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, Verdict
from looktwice.eval.statistics.intervals import Clusters, cluster_codes, cluster_sums
from looktwice.eval.statistics.paired import Values
from looktwice.pipelines.config.spec import public_path
from looktwice.prompting.agent.episode import read_looks
from looktwice.prompting.wording import ChainOfThought

MEASURED = "measured."
"""How the metrics of measurements begin in report.csv."""
TURNS = "turn."
"""How the metrics of single turns begin there."""
TURN = "turn_"
"""How the measurements begin that say where turns end."""
FEW = 8
"""So many different numbers are parts of their own; more are put into quarters."""
MOST_TURNS = 12
"""Later turns are those of a single long record, and the last one is shown in any case."""

Measured = dict[str, float | str]
"""By sample: a number, or a category; all of one kind."""


def measurements(scores: PointScores) -> dict[str, Measured]:
    """Every measurement of an arm by name: a number (the mean over draws) or a category (the first
    draw's) a sample.

    What was measured at every turn has a name for each, "overlap@1". Turns themselves are left out.
    """
    draws: dict[str, dict[str, list[float | str]]] = defaultdict(lambda: defaultdict(list))
    for sample, entries in scores.draws_asked.items():
        for entry in entries:
            for name, value in entry.measured.items():
                many = isinstance(value, list | tuple)
                places = {f"{name}@{n}": at for n, at in enumerate(value, 1)} if many else {}
                for place, number in (places if many else {name: value}).items():
                    if number is not None and not name.startswith(TURN):
                        draws[place][sample].append(number)
    measured: dict[str, Measured] = {}
    for name, by_sample in draws.items():
        is_word = any(isinstance(values[0], str) for values in by_sample.values())
        for sample, values in by_sample.items():
            value = str(values[0]) if is_word else fmean(map(float, values))
            measured.setdefault(name, {})[sample] = value
    return measured


def numbers_of(values: Measured) -> dict[str, float]:
    """The values that are numbers and no categories."""
    return {sample: value for sample, value in values.items() if not isinstance(value, str)}


def measured_metrics(scores: PointScores) -> Iterator[Metric]:
    """A metric for each measured number, its mean, and for each category, its share."""
    for name, values in measurements(scores).items():
        if numbers := numbers_of(values):
            mean = fmean(numbers.values())
            yield Metric(MEASURED + name, numbers, value=mean, clusters=scores.clusters)
            continue
        for category in sorted(set(map(str, values.values()))):
            units = {sample: float(value == category) for sample, value in values.items()}
            yield Metric(f"{MEASURED}{name}={category}", units, clusters=scores.clusters)


def measured_parts(scores: PointScores, name: str) -> Mapping[str, str]:
    """The part to which each sample belongs by a measurement: its category, its number, or the
    quarter of the numbers.

    A quarter is named by its number and bounds, "1: 0.02 to 0.11".
    """
    values = measurements(scores).get(name, {})
    numbers = numbers_of(values)
    if len(numbers) < len(values) or len(set(numbers.values())) <= FEW:
        return {n: v if isinstance(v, str) else f"{v:g}" for n, v in values.items()}
    edges = np.quantile([*numbers.values()], (0, 0.25, 0.5, 0.75, 1))
    names = [f"{n + 1}: {edges[n]:.3g} to {edges[n + 1]:.3g}" for n in range(4)]
    quarters = np.searchsorted(edges[1:-1], [*numbers.values()])
    return dict(zip(numbers, map(names.__getitem__, quarters), strict=True))


def rightness(scores: PointScores) -> dict[str, float]:
    """The share of draws that are right, of every sample with a key whose draws did not all
    fail."""
    return {
        name: fmean(draw.verdict is Verdict.RIGHT for draw in scores.not_failed(name))
        for name in scores.comparable
    }


def mean_interval(values: Sequence[float], clusters: Clusters) -> tuple[float | None, float | None]:
    """The 95 % t interval of a mean over clusters; none where there is no spread to tell it from.

    It stays within 0..1 where all values lie there, as shares do.
    """
    mean = fmean(values)
    off, sizes = cluster_sums(np.array(values) - mean, cluster_codes(clusters, len(values)))
    spread = float(np.square(off).sum())
    if len(sizes) < 2 or spread < 1e-24:
        return None, None
    from scipy.special import stdtrit

    freedom = max(1.0, len(values) ** 2 / float(np.square(sizes).sum()) - 1)
    error = sqrt(spread * len(sizes) / (len(sizes) - 1)) / len(values)
    half = float(stdtrit(freedom, 0.975)) * error
    if min(values) >= 0 and max(values) <= 1:
        return max(0.0, mean - half), min(1.0, mean + half)
    return mean - half, mean + half


# ---- turns


LOOKING = "looking"


@dataclass(frozen=True)
class Turns:
    """What one record would have answered after each turn, the last as it did; tokens and cost are
    those until then. A turn that ended in a request for a look has no answer yet: its reason is
    LOOKING."""

    sample: str
    scored: tuple[ScoredRecord, ...]

    def at(self, turn: int) -> ScoredRecord:
        """The answer after a turn, counted from 0; one that ended earlier keeps its last."""
        return self.scored[min(turn, len(self.scored) - 1)]

    def spent(self, turn: int, tokens: bool) -> float:
        """Tokens until the end of a turn, or turns."""
        scored = self.at(turn)
        return scored.tokens_in + scored.tokens_out if tokens else min(turn + 1, len(self.scored))

    def first(self, holds: Callable[[Turns, int], bool]) -> int:
        """The first turn of which this holds, at the latest the last."""
        end = len(self.scored) - 1
        return next((turn for turn in range(end) if holds(self, turn)), end)


@dataclass(frozen=True)
class TurnsOfArm:
    """The turns of every record of an arm that made more than one and did not fail, on samples with
    a key."""

    scores: PointScores
    records: tuple[Turns, ...]

    @property
    def last(self) -> int:
        """The last turn of the longest record, counted from 0."""
        return max(len(turns.scored) for turns in self.records) - 1

    @property
    def shown(self) -> list[int]:
        """The turns that are shown: the first `MOST_TURNS`, of more the last in place of one."""
        return [*range(min(MOST_TURNS - 1, self.last)), self.last]

    @property
    def clusters(self) -> list[str]:
        """The cluster of each record."""
        return self.scores.clusters_of(turns.sample for turns in self.records)

    def mean(self, turn: int, value: Callable[[ScoredRecord], float | None]) -> dict[str, float]:
        """Something of the answers after a turn by sample, the mean over its draws that have it."""
        draws = defaultdict[str, list[float]](list)
        for turns in self.records:
            if (worth := value(turns.at(turn))) is not None:
                draws[turns.sample].append(worth)
        return {sample: fmean(values) for sample, values in draws.items()}

    @cached_property
    def values(self) -> Values[int, str]:
        """The value of every sample after each turn, the mean over its draws; NaN where no draw has
        an answer yet."""

        def value(scored: ScoredRecord) -> float | None:
            return None if scored.reason == LOOKING else scored.score.value

        means = {turn: self.mean(turn, value) for turn in range(self.last + 1)}
        return Values.of(means, self.scores.clusters)

    def tokens(self, turn: int) -> float:
        """Tokens of a sample until the end of a turn, the mean over samples."""
        return fmean(self.mean(turn, lambda scored: scored.tokens_in + scored.tokens_out).values())

    def cost(self, turn: int) -> float | None:
        """The list price of a sample until then; None where a model has no prices."""
        if any(turns.at(turn).cost is None for turns in self.records):
            return None
        return fmean(self.mean(turn, lambda scored: scored.cost or 0.0).values())


def read_turns(run: RunScores) -> list[TurnsOfArm]:
    """The turns of every arm of a run that has more than one, in the run's order."""
    chains, turns = set[str](), defaultdict[str, list[Turns]](list)
    for scores in run.points:
        nodes = (scores.point.spec.get("stages") or {}).values()
        uses = [node.get("use") for node in nodes if isinstance(node, Mapping)]
        chains |= {scores.point.id} if public_path(ChainOfThought) in uses else set()
    for scores, record in run.records(holding="" if chains else '"turn_call"'):
        final, row = scores.result_of(record), scores.samples.get(record.sample)
        if final is None or final.verdict is Verdict.FAILED or scores.score is None:
            continue
        if row is not None and row.answer is not None:
            cut, looked = list[ScoredRecord](), {look.call for look in read_looks(record.notes)}
            for part in _cut(record, scores.point.id in chains):
                scored = scores.score(part, row)
                is_call = scored.answer is None and len(part.calls) - 1 in looked
                cut.append(replace(scored, reason=LOOKING) if is_call else scored)
            if cut:
                turns[scores.point.id].append(Turns(record.sample, (*cut, final)))
    arms = []
    for name, scores in run.by_id.items():
        if name in turns and (arm := TurnsOfArm(scores, tuple(turns[name]))).last > 0:
            arms.append(arm)
    return arms


def turn_metrics(run: RunScores) -> Iterator[tuple[PointScores, Metric]]:
    """The accuracy after each turn of every arm that has several: `turn.1.accuracy`, from 1."""
    for arm in read_turns(run):
        for turn in arm.shown:
            asked = arm.values.where(arm.values.has(turn))
            values = dict(zip(asked.units, asked[turn].tolist(), strict=True))
            name = f"{TURNS}{turn + 1}.accuracy"
            yield arm.scores, Metric(name, values, clusters=arm.scores.clusters)


def _cut(record: Record, chain: bool) -> Iterator[Record]:
    """The record as it stood after each turn but the last; of a single call in a chain of thought,
    as if its reply had ended after each line."""
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
    for end in ends[: MOST_TURNS - 1]:
        cut = {**reply, "text": "\n".join(lines[:end]), "finish": "stop"}
        yield replace(record, calls=({**record.calls[0], "reply": cut},))
