"""How measurements relate to accuracy: their means over the samples that are right and over the
others, and the accuracy by category or by quarter; the accuracy on the most confident samples, and
the gain from passing the others on to another arm."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.analysis.analyses import Analysis, make_curve_builder, make_table_builder
from looktwice.eval.analysis.one_change import is_specialist
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    ARM_NAME_COLUMNS,
    Column,
    Columns,
    TextTable,
    change_cell,
    format_p,
    percent,
    share_cell,
    table,
    text,
)
from looktwice.eval.page.data import PageLines
from looktwice.eval.scoring.metrics import (
    collect_measurements,
    select_numbers,
    split_by_measurement,
)
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.contrasts import mean_difference
from looktwice.eval.statistics.intervals import (
    Estimate,
    Floats,
    cluster_codes,
    finite_mean,
    mean_interval,
    share_interval,
)
from looktwice.eval.statistics.paired import ValueMatrix
from looktwice.extras.studies.unpaired import compare_means
from looktwice.pipelines.counted import format_number


@dataclass(frozen=True, eq=False)
class Measurement:
    """A measurement of an arm: either the samples that have a number, with these numbers, or the
    samples of one category, without numbers.

    `right` is the share of right draws of each sample, NaN if the sample has no correct answer or
    all its draws failed.
    """

    scores: PointScores
    name: str
    right: Floats
    clusters: NDArray[np.int64]
    numbers: Floats | None = None

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.right)

    @property
    def mean(self) -> str | None:
        """The mean of the numbers with its interval; None for a category, which has no numbers."""
        if self.numbers is None:
            return None
        low, high = mean_interval(self.numbers.tolist(), self.clusters)
        ends = [format_number(end) for end in (low, high) if end is not None]
        return "\n".join(
            filter(None, (format_number(finite_mean(self.numbers)), " to ".join(ends)))
        )

    def get_numbers(self, right: bool) -> Floats:
        """Return the numbers of the samples that are right or, unless `right`, of the other
        samples."""
        wanted = self.right > 0.5 if right else self.right <= 0.5
        return np.zeros(0) if self.numbers is None else self.numbers[wanted]

    def compute_mean(self, right: bool) -> float | None:
        """Return the mean of `get_numbers(right)`; None if there is no such sample."""
        numbers = self.get_numbers(right)
        return finite_mean(numbers) if len(numbers) else None

    @property
    def gap(self) -> Estimate | None:
        """The difference between the mean over the right samples and the mean over the other
        samples (`compare_means`); None if the numbers do not vary."""
        clusters = [self.clusters[self.right > 0.5], self.clusters[self.right <= 0.5]]
        return compare_means(
            self.get_numbers(True), self.get_numbers(False), np.concatenate(clusters)
        )

    @property
    def accuracy(self) -> Estimate | None:
        """The accuracy on the samples of a category; None for a measured number."""
        return share_interval(self.right, self.clusters) if self.numbers is None else None


def _format_gap(gap: Estimate) -> str:
    low, high = map(format_number, (gap.low, gap.high))
    return f"{format_number(gap.value, sign='+')}\n{low} to {high}".replace("-", "\u2212")


MEASURED_COLUMNS: Columns[Measurement] = (
    *ARM_NAME_COLUMNS,
    Column("measured", "name", text),
    Column("n", "n"),
    Column("mean", "mean"),
    Column("mean if\nright", lambda line: line.compute_mean(True), format_number),
    Column("mean if\nnot right", lambda line: line.compute_mean(False), format_number),
    Column("difference", "gap", _format_gap),
    Column("p", "gap.p", format_p),
    Column("accuracy\n%", "accuracy", share_cell),
)


def get_answered_scores(scores: PointScores) -> dict[str, float]:
    """Return the share of right draws for every sample that has a correct answer and a draw that
    did not fail."""
    return {
        name: fmean(draw.verdict is Verdict.RIGHT for draw in scores.get_successful_draws(name))
        for name in scores.comparable_values
    }


def make_measurement_table(scored: Table) -> TextTable:
    """Return a line for each measured number and each category of every arm.

    The line of a number shows its mean with an interval, the means over right samples and over
    other samples, and the difference of the two with Welch's interval and p. The line of a category
    shows the accuracy on its samples with an interval.
    """
    arms = [scores for run in scored.scores for scores in run.points]
    shown = table(
        MEASURED_COLUMNS, [*chain.from_iterable(map(_list_measurements, arms))]
    ).without_empty()
    return shown if len({scores.task for scores in arms}) > 1 else shown.without("task")


def _list_measurements(scores: PointScores) -> Iterator[Measurement]:
    right = get_answered_scores(scores)

    def measure(name: str, samples: Sequence[str], numbers: Floats | None = None) -> Measurement:
        codes = cluster_codes(scores.clusters_of(samples), len(samples))
        shares = np.array([right.get(sample, np.nan) for sample in samples])
        return Measurement(scores, name, shares, codes, numbers)

    for name, values in collect_measurements(scores).items():
        if numbers := select_numbers(values):
            yield measure(name, [*numbers], np.array([*numbers.values()]))
            continue
        members = defaultdict[str, list[str]](list)
        for sample, category in values.items():
            if sample in right:
                members[str(category)].append(sample)
        for category in sorted(members):
            yield measure(f"{name}: {category}", members[category])


def make_measurement_curves(run: RunScores, task: str) -> list[PageLines]:
    """Return a plot of the accuracy against each measured number on a task, with a line for each
    arm that connects the quarters of the arm's own numbers."""
    lines: dict[str, dict[str, Sequence[tuple[float, float, float, float]]]] = defaultdict(dict)
    for scores in run.points:
        matrix = ValueMatrix.of({0: get_answered_scores(scores)}, scores.clusters)
        for name, values in (
            collect_measurements(scores).items() if scores.point.task == task else ()
        ):
            if LAYER_OR_HEAD_PATTERN.fullmatch(name):
                continue
            numbers, points = select_numbers(values), []
            parts = split_by_measurement(scores, name)
            measured = matrix.where(np.array([unit in numbers for unit in matrix.units], bool))
            for part in measured.split_by(parts.__getitem__).values():
                if share := part.mean(0):
                    x = finite_mean(map(numbers.__getitem__, part.units))
                    points.append((x, share.value, share.low, share.high))
            if len(points) > 1:
                lines[name][scores.contestant] = sorted(points)
    return [
        PageLines(f"measured {name}", task, drawn, is_chosen=True) for name, drawn in lines.items()
    ]


LAYER_OR_HEAD_PATTERN = re.compile(r"(.+)_(layer|head)_(\d+)")
"""The name of a measurement of one layer or head of a network."""


def make_part_curves(run: RunScores, task: str) -> list[PageLines]:
    """Return a plot for each measurement of a network's layers or heads on a task: the mean of the
    measurement along them, with a line for each arm."""
    lines: dict[tuple[str, str], dict[str, list[tuple[float, float, float, float]]]]
    lines = defaultdict(lambda: defaultdict(list))
    for scores in run.points:
        for line in _list_measurements(scores) if scores.point.task == task else ():
            if (part := LAYER_OR_HEAD_PATTERN.fullmatch(line.name)) and line.numbers is not None:
                name, kind, place = part.groups()
                mean = finite_mean(line.numbers)
                low, high = mean_interval(line.numbers.tolist(), line.clusters)
                if low is None or high is None:
                    low = high = mean
                lines[name, kind][scores.contestant].append((int(place), mean, low, high))
    return [PageLines(kind, task, drawn, of=name) for (name, kind), drawn in lines.items()]


# ---- confidence

PASSED_SHARES = (0.25, 0.5, 0.75)
"""The shares of the samples that are passed on in a `Route`, or answered in `RiskCoverage`."""


def get_confidences(scores: PointScores) -> Mapping[str, float]:
    """Return the confidence of every comparable sample; empty if no sample has one, or if all have
    the same one."""
    measured = collect_measurements(scores).get("confidence", {})
    numbers = {
        name: float(value) for name, value in measured.items() if name in scores.comparable_values
    }
    return numbers if len(set(numbers.values())) > 1 else {}


@dataclass(frozen=True)
class RiskCoverage:
    """The accuracy on the samples on which an arm is most confident, for each of `PASSED_SHARES`
    and for all samples.

    `area` is the area under the curve of risk against coverage, which is the mean risk over all
    coverages; `best_area` and `random_area` are the areas if an oracle, or chance, orders the
    samples (Geifman et al. 2019). Samples with equal confidence share the mean of their accuracies.
    """

    scores: PointScores
    n: int
    accuracies: tuple[Estimate, ...]
    area: float
    best_area: float
    random_area: float


def find_risks(run: RunScores) -> Iterator[RiskCoverage]:
    """Yield the relation of risk and coverage for each arm that measures its confidence."""
    for scores in run.points:
        if not (confidence := get_confidences(scores)):
            continue
        order = sorted(confidence, key=lambda name: (-confidence[name], name))
        _, ties = np.unique([*map(confidence.__getitem__, order)], return_inverse=True)
        values = np.array([*map(scores.comparable_values.__getitem__, order)])
        ranked = (np.bincount(ties, values) / np.bincount(ties))[ties]
        clusters, n = scores.clusters_of(order), len(order)
        counts = [max(1, round(share * n)) for share in (*PASSED_SHARES, 1.0)]
        shares = tuple(share_interval(ranked[:count], clusters[:count]) for count in counts)
        area, best = _compute_area(ranked), _compute_area(np.sort(ranked)[::-1])
        yield RiskCoverage(scores, n, shares, area, best, 1 - fmean(ranked))


def _compute_area(ranked: Floats) -> float:
    """Return the mean risk over all coverages, given the accuracies of samples ranked by
    confidence."""
    return fmean(1 - np.cumsum(ranked) / np.arange(1, len(ranked) + 1))


def _make_accuracy_column(place: int, title: str) -> Column[RiskCoverage]:
    return Column(title, lambda risk: risk.accuracies[place], share_cell)


RISK_COLUMNS: Columns[RiskCoverage] = (
    *ARM_NAME_COLUMNS,
    Column("n", "n"),
    *(
        _make_accuracy_column(n, f"accuracy of most\nconfident {s:.0%}")
        for n, s in enumerate(PASSED_SHARES)
    ),
    _make_accuracy_column(-1, "accuracy\nof all %"),
    Column("area", "area", "{:.3f}"),
    Column("area,\noracle", "best_area", "{:.3f}"),
    Column("area,\nrandom", "random_area", "{:.3f}"),
)


@dataclass(frozen=True)
class Route:
    """A routing rule: the first arm passes a share of its samples, the least confident ones, on to
    the next arms.

    `router_accuracy`, `random_accuracy` and `oracle_accuracy` are the accuracies if the samples
    passed on are the least confident ones, random ones, or those for which passing on helps most;
    all three pass on the same number. `gain` is the paired difference between the router and random
    choice.
    """

    first_arm: str
    next_arms: str
    share: float
    n: int
    tokens: float
    router_accuracy: float
    random_accuracy: float
    oracle_accuracy: float
    gain: Estimate


def find_routes(run: RunScores) -> Iterator[Route]:
    """Yield the routes from every arm that measures its confidence to every other arm of its task,
    and to every pair of a model and a specialist that follows it."""
    for start in run.points:
        confidence, task = get_confidences(start), start.point.task_id
        if not confidence:
            continue
        others, plans = list[tuple[PointScores, bool]](), list[tuple[PointScores, ...]]()
        for arm in run.points:
            if arm.point.task_id == task and arm is not start and arm.comparable_values:
                others.append((arm, is_specialist(arm)))
                plans.append((arm,))
        for (model, own), (expert, is_expert) in product(others, others):
            plans += [(model, expert)] if is_expert and not own else []
        for plan in plans:
            shared = set(confidence).intersection(*(arm.comparable_values for arm in plan))
            order = sorted(shared, key=lambda name: (confidence[name], name))
            if len(order) > 1:
                yield from _compare_shares((start, *plan), order)


def _compare_shares(arms: Sequence[PointScores], order: Sequence[str]) -> Iterator[Route]:
    """Yield a route for each of `PASSED_SHARES` of the first arm's samples, which `order` lists
    with the least confident first; if two arms follow, the last one receives the less confident
    half of the samples passed on."""
    n, places, onward = len(order), np.arange(len(order)), len(arms) - 1
    values, tokens = np.empty((2, len(arms), n))
    for number, arm in enumerate(arms):
        values[number] = [*map(arm.comparable_values.__getitem__, order)]
        for place, entries in enumerate(map(arm.get_recorded_draws, order)):
            tokens[number, place] = fmean(entry.tokens_in + entry.tokens_out for entry in entries)
    helped = np.sort(values[1:].max(axis=0) - values[0])[::-1]
    clusters = arms[0].clusters_of(order)
    for share in PASSED_SHARES:
        sent = round(share * n)
        chosen = np.where(places < sent, onward - onward * places // max(1, sent), 0)
        router = values[chosen, places]
        random = (1 - sent / n) * values[0] + sent / n * values[1:].mean(axis=0)
        yield Route(
            arms[0].contestant,
            ", then ".join(arm.contestant for arm in arms[1:]),
            share,
            n,
            fmean(tokens[0] + np.where(chosen, tokens[chosen, places], 0)),
            fmean(router),
            fmean(random),
            float(values[0].sum() + helped[:sent].sum()) / n,
            mean_difference(router - random, clusters),
        )


ROUTE_COLUMNS: Columns[Route] = (
    Column("first", "first_arm", text),
    Column("then", "next_arms", text),
    Column("passed on", lambda route: f"{route.share:.0%}", text),
    Column("n", "n"),
    Column("tokens\nper sample", "tokens", "{:,.0f}"),
    Column("by confidence\n%", "router_accuracy", percent),
    Column("at random\n%", "random_accuracy", percent),
    Column("oracle\n%", "oracle_accuracy", percent),
    Column("gain over\nrandom", "gain", change_cell),
    Column("p", "gain.p", format_p),
)


RISK_ANALYSIS = Analysis(
    "risk", "Risk and coverage", make_table_builder(RISK_COLUMNS, find_risks), wrap=False
)
ROUTING_ANALYSIS = Analysis(
    "routing", "Routing by confidence", make_table_builder(ROUTE_COLUMNS, find_routes)
)
MEASURED_ANALYSIS = Analysis(
    "measured",
    "Measurements and accuracy",
    make_measurement_table,
    curves=make_curve_builder(make_measurement_curves, make_part_curves),
)
