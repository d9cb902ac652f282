"""The metrics of an arm beyond its counts: those of every task (`METRICS`), and those over groups
of samples that count as one unit, over the levels of a control, of measurements by stages
(`State.measured`), and of the answer after every turn, scored as if it had been the last.

Stages record which call ended each turn (`turn_call`, and for a vote the majority so far,
`turn_vote`). Replies are read when a run is scored, so another reader reads the turns again. In a
chain of thought, a turn is a line of the reply.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from looktwice.eval.records.records import Record, get_looks
from looktwice.eval.scoring.verdict import (
    Levels,
    Metric,
    PointScores,
    RunScores,
    Samples,
    ScoredRecord,
    Scorer,
    Verdict,
)
from looktwice.eval.statistics.means import find_scale, finite_mean
from looktwice.eval.statistics.paired import Values, kruskal
from looktwice.pipelines.config.spec import get_public_path
from looktwice.pipelines.counted import format_number
from looktwice.prompting.wording import ChainOfThought

MEASURED = "measured."
"""Prefix of the metrics of measurements in report.csv."""
TURNS = "turn."
"""Prefix of the metrics of single turns in report.csv."""
TURN = "turn_"
"""Prefix of the measurements that say where turns end."""
MAX_DISTINCT_NUMBERS = 8
"""The most distinct numbers that each become a part; with more, the samples are split into
quarters."""
MAX_TURNS = 12
"""The most turns that are shown, as later ones come from a few long records; the last turn is
always shown."""
CHAIN = get_public_path(ChainOfThought)
ANSWERED = (Verdict.RIGHT, Verdict.WRONG, Verdict.HIDDEN)
CIRCULAR = "circular_accuracy"
Groups = Mapping[str, Sequence[str]]
Measured = dict[str, float | str]
"""A number or a category by sample; all of one kind."""


def accuracy(scores: PointScores) -> dict[str, float]:
    """Return the mean score of each asked sample with a correct answer; an unreadable or failed
    answer scores 0.

    Empty if every answer failed, because then nothing was measured. Samples that only a judge could
    score, and no judge has, are left out.
    """
    if scores.failure:
        return {}
    values = scores.means(lambda draw: draw.graded_value)
    return {name: value for name, value in values.items() if name in scores.keyed}


def accuracy_answered(scores: PointScores) -> dict[str, float]:
    """Return the mean score of each sample over its draws with the verdict RIGHT or WRONG; samples
    without such a draw are left out."""
    graded = (Verdict.RIGHT, Verdict.WRONG)
    return scores.means(lambda draw: draw.score.value if draw.verdict in graded else None)


def coverage(scores: PointScores) -> dict[str, float]:
    """Return, for each asked sample, the share of draws with a readable answer: right, wrong, or
    without a correct answer to compare with."""
    return scores.means(lambda draw: draw.verdict in ANSWERED)


METRICS: dict[str, Callable[[PointScores], Mapping[str, float]]] = {
    "accuracy": accuracy,
    "accuracy_answered": accuracy_answered,
    "coverage": coverage,
}
"""Functions by name that return a value (0..1) for each sample that the metric covers. A metric
added here gets its rows in report.csv, with macro and micro, and its column in the printed tables;
`accuracy` stays first."""


# ---- groups of samples, and levels


def group_by(samples: Samples, *fields: str) -> dict[str, list[str]]:
    """Return the samples by the values of these meta fields; a sample that lacks one of them is in
    no group."""
    groups = defaultdict[str, list[str]](list)
    for name, row in samples.items():
        values = [row.meta.get(field) for field in fields]
        if None not in values:
            groups[" ".join(map(str, values))].append(name)
    return dict(groups)


def right_by_draw(together: Iterable[Sequence[ScoredRecord | None]]) -> list[tuple[bool, ...]]:
    """Return, for each draw in which all of these were asked, whether each was answered right."""
    return [
        tuple(scored is not None and scored.verdict is Verdict.RIGHT for scored in draw)
        for draw in zip(*together, strict=False)
        if None not in draw
    ]


def group_metric(
    metric: str,
    unit: str,
    scores: PointScores,
    groups: Groups,
    rule: Callable[[Iterable[bool]], bool] = all,
) -> Metric:
    """Return the share of groups whose samples satisfy `rule`, as the mean over draws.

    A group without samples never satisfies it. A group with a failed sample counts, but not in a
    paired test; a group with a sample that was not asked is left out.
    """
    units = dict[str, float]()
    for name, members in groups.items():
        draws = right_by_draw(scores.draws(sample) for sample in members)
        if draws or not members:
            units[name] = fmean(map(rule, draws)) if draws else 0.0
    failed = (name for name, members in groups.items() if {*members} - scores.comparable.keys())
    return Metric(metric, units, unit, frozenset(failed), clusters=clusters_of(scores, groups))


def clusters_of(scores: PointScores, groups: Groups) -> dict[str, str]:
    """Return the cluster of each group; groups that share a cluster of their members, directly or
    through other groups, are in one."""
    of_cluster = dict[str, str]()

    def first(cluster: str) -> str:
        while of_cluster.setdefault(cluster, cluster) != cluster:
            cluster = of_cluster[cluster]
        return cluster

    for members in groups.values():
        joined = sorted({first(scores.clusters[sample]) for sample in members})
        of_cluster |= dict.fromkeys(joined, joined[0]) if joined else {}
    return {name: first(scores.clusters[members[0]]) for name, members in groups.items() if members}


@dataclass(frozen=True)
class AllRight(Scorer):
    """Samples with the same value of a meta field count as one unit, which is right if all of them
    are right.

    `by` is the field, `metric` the name of the metric. VLMEvalKit's circular files have one row per
    rotation.
    """

    by: str = "circle"
    metric: str = CIRCULAR

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the share of groups that are right as a whole."""
        groups = group_by(scores.keyed, self.by)
        return [group_metric(self.metric, self.by, scores, groups)] if groups else []

    def chance(self, samples: Samples) -> Levels:
        """Return the mean over groups of the product of 1 / (number of choices)."""
        levels = []
        for members in group_by(samples, self.by).values():
            level = 1.0
            for name in members:
                level /= samples[name].n_choices or float("inf")
            levels.append(level)
        return {self.metric: sum(levels) / len(levels)} if levels and min(levels) > 0 else {}


def chance_levels(samples: Samples, scorer: Scorer | None) -> Levels:
    """Return the chance levels by metric: for accuracy 1 / (number of choices), and the levels of
    the benchmark's scorer."""
    levels = dict(scorer.chance(samples)) if scorer is not None else {}
    choices = [row.n_choices for row in samples.values()]
    return levels | {"accuracy": fmean(1 / n for n in choices)} if all(choices) else levels


class AlongControls(Scorer):
    """The shared part of scorers whose tasks have `controls`: the meta fields that hold their
    levels."""

    controls: tuple[str, ...]
    headlines: ClassVar[tuple[str, ...]] = ()  # accuracy is enough

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return, for every control with several levels, its test and the accuracy at each
        level."""
        values, metrics = accuracy(scores), list[Metric]()
        for control in self.controls:
            levels = defaultdict[Any, dict[str, float]](dict)
            for name, row in scores.keyed.items():
                if control in row.meta and name in values:
                    levels[row.meta[control]][name] = values[name]
            if len(levels) < 2:
                continue
            ordered = sorted(levels, key=lambda level: (isinstance(level, str), level))
            units = dict(chain.from_iterable(levels[level].items() for level in ordered))
            effect, p = kruskal([list(levels[level].values()) for level in ordered])
            name = f"kruskal_{control}"
            metrics.append(Metric(name, units, value=effect, groups=len(ordered), p=p))
            for level in ordered:
                part = f"{control}={level}"
                metrics.append(Metric("accuracy_along", levels[level], slice=part))
        return metrics


# ---- what stages measured


def measurements(scores: PointScores) -> dict[str, Measured]:
    """Return every measurement of an arm by name: for each sample a number (the mean over draws) or
    a category (that of the first draw).

    A measurement taken at every turn has a name for each, "overlap@1". The ends of turns are left
    out.
    """
    draws = defaultdict[str, dict[str, list[float | str]]](lambda: defaultdict(list))
    for sample, entries in scores.draws_asked.items():
        for entry in entries:
            for name, value in entry.measured.items():
                many = isinstance(value, list | tuple)
                places = {f"{name}@{n}": at for n, at in enumerate(value, 1)} if many else {}
                for place, number in (places if many else {name: value}).items():
                    if is_measure(number) and not name.startswith(TURN):
                        draws[place][sample].append(number)
    measured = dict[str, Measured]()
    for name, by_sample in draws.items():
        is_word = any(isinstance(values[0], str) for values in by_sample.values())
        for sample, values in by_sample.items():
            value = str(values[0]) if is_word else finite_mean(map(float, values))
            measured.setdefault(name, {})[sample] = value
    return measured


def is_measure(value: Any) -> bool:
    """Return whether a value is a category, or a number within the range of a float; anything else
    counts as not measured."""
    return isinstance(value, str) or (value is not None and abs(value) <= sys.float_info.max)


def select_numbers(values: Measured) -> dict[str, float]:
    """Return the values that are numbers rather than categories."""
    return {sample: value for sample, value in values.items() if not isinstance(value, str)}


def measured_metrics(scores: PointScores) -> Iterator[Metric]:
    """Yield a metric for each measured number (its mean) and for each category (its share)."""
    for name, values in measurements(scores).items():
        if numbers := select_numbers(values):
            mean = finite_mean(numbers.values())
            yield Metric(MEASURED + name, numbers, value=mean, clusters=scores.clusters)
            continue
        for category in sorted(set(map(str, values.values()))):
            units = {sample: float(value == category) for sample, value in values.items()}
            yield Metric(f"{MEASURED}{name}={category}", units, clusters=scores.clusters)


def measured_parts(scores: PointScores, name: str) -> Mapping[str, str]:
    """Return the part of the samples to which each belongs by a measurement: its category, its
    number, or its quarter.

    A quarter is named by its number and bounds, "1: 0.02 to 0.11".
    """
    values = measurements(scores).get(name, {})
    numbers = select_numbers(values)
    if len(numbers) < len(values) or len(set(numbers.values())) <= MAX_DISTINCT_NUMBERS:
        return {n: v if isinstance(v, str) else f"{v:g}" for n, v in values.items()}
    scale = find_scale([*numbers.values()])
    scaled = [number / scale for number in numbers.values()]
    edges = scale * np.quantile(scaled, (0, 0.25, 0.5, 0.75, 1))
    bounds = [*map(format_number, edges)]
    names = [f"{n + 1}: {bounds[n]} to {bounds[n + 1]}" for n in range(4)]
    quarters = np.searchsorted(edges[1:-1], [*numbers.values()])
    return dict(zip(numbers, map(names.__getitem__, quarters), strict=True))


# ---- turns


LOOKING_REASON = "looking"


@dataclass(frozen=True)
class Turns:
    """The answers that one record would have given after each turn; the last is its final answer.
    Tokens and cost are those up to that turn. A turn that ended in a look (tool call) has no answer
    yet: its reason is LOOKING."""

    sample: str
    scored: tuple[ScoredRecord, ...]

    def at(self, turn: int) -> ScoredRecord:
        """Return the answer after a turn, counted from 0; after its end, a record keeps its last
        answer."""
        return self.scored[min(turn, len(self.scored) - 1)]

    def spent(self, turn: int, tokens: bool) -> float:
        """Return the tokens used up to the end of a turn, or the number of turns."""
        scored = self.at(turn)
        return scored.tokens_in + scored.tokens_out if tokens else min(turn + 1, len(self.scored))

    def first(self, holds: Callable[[Turns, int], bool]) -> int:
        """Return the first turn for which `holds` is true, or else the last turn."""
        end = len(self.scored) - 1
        return next((turn for turn in range(end) if holds(self, turn)), end)


@dataclass(frozen=True)
class TurnsOfArm:
    """The turns of every record of an arm that has more than one and did not fail, on samples with
    a correct answer."""

    scores: PointScores
    records: tuple[Turns, ...]

    @property
    def last(self) -> int:
        """The last turn of the longest record, counted from 0."""
        return max(len(turns.scored) for turns in self.records) - 1

    @property
    def shown(self) -> list[int]:
        """The turns to show: the first `MAX_TURNS`, with the last one instead of the twelfth if
        there are more."""
        return [*range(min(MAX_TURNS - 1, self.last)), self.last]

    @property
    def clusters(self) -> list[str]:
        """The cluster of each record."""
        return self.scores.clusters_of(turns.sample for turns in self.records)

    def mean(self, turn: int, value: Callable[[ScoredRecord], float | None]) -> dict[str, float]:
        """Return the mean of a value of the answers after a turn, by sample, over the draws that
        have it."""
        draws = defaultdict[str, list[float]](list)
        for turns in self.records:
            if (worth := value(turns.at(turn))) is not None:
                draws[turns.sample].append(worth)
        return {sample: fmean(values) for sample, values in draws.items()}

    @cached_property
    def values(self) -> Values[int, str]:
        """The score of every sample after each turn, as the mean over its draws; NaN if no draw has
        an answer yet."""

        def value(scored: ScoredRecord) -> float | None:
            return None if scored.reason == LOOKING_REASON else scored.score.value

        means = {turn: self.mean(turn, value) for turn in range(self.last + 1)}
        return Values.of(means, self.scores.clusters)

    def tokens(self, turn: int) -> float:
        """Return the mean tokens of a sample up to the end of a turn."""
        return fmean(self.mean(turn, lambda scored: scored.tokens_in + scored.tokens_out).values())

    def cost(self, turn: int) -> float | None:
        """Return the mean list price of a sample up to the end of a turn; None if a model has no
        prices."""
        if any(turns.at(turn).cost is None for turns in self.records):
            return None
        return fmean(self.mean(turn, lambda scored: scored.cost or 0.0).values())


def read_turns(run: RunScores) -> list[TurnsOfArm]:
    """Return the turns of every arm that has more than one, in the run's order."""
    chains, turns = set[str](), defaultdict[str, list[Turns]](list)
    for scores in run.points:
        nodes = (scores.point.spec.get("stages") or {}).values()
        uses = [node.get("use") for node in nodes if isinstance(node, Mapping)]
        chains |= {scores.point.id} if CHAIN in uses else set()
    for scores, record in run.records(holding="" if chains else '"turn_call"'):
        final, row = scores.result_of(record), scores.samples.get(record.sample)
        if final is None or final.verdict is Verdict.FAILED or scores.score is None:
            continue
        if row is not None and row.answer is not None:
            cut, looked = list[ScoredRecord](), {look.call for look in get_looks(record)}
            for part in _cut(record, scores.point.id in chains):
                scored = scores.score(part, row)
                is_call = scored.answer is None and len(part.calls) - 1 in looked
                cut.append(replace(scored, reason=LOOKING_REASON) if is_call else scored)
            if cut:
                turns[scores.point.id].append(Turns(record.sample, (*cut, final)))
    arms = []
    for name, scores in run.by_id.items():
        if name in turns and (arm := TurnsOfArm(scores, tuple(turns[name]))).last > 0:
            arms.append(arm)
    return arms


def turn_metrics(run: RunScores) -> Iterator[tuple[PointScores, Metric]]:
    """Yield the accuracy after each turn of every arm with several turns, named `turn.1.accuracy`
    and so on."""
    for arm in read_turns(run):
        for turn in arm.shown:
            asked = arm.values.where(arm.values.has(turn))
            values = dict(zip(asked.units, asked[turn].tolist(), strict=True))
            name = f"{TURNS}{turn + 1}.accuracy"
            yield arm.scores, Metric(name, values, clusters=arm.scores.clusters)


def _cut(record: Record, chain: bool) -> Iterator[Record]:
    """Yield the record as it stood after each turn but the last; for a single call in a chain of
    thought, as if its reply had ended after each line."""
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
