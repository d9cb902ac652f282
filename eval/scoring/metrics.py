"""The metrics of an arm beyond its counts: metrics of every task (`METRICS`), metrics over the
levels of a control, and metrics of measurements that stages take (`State.measured`)."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from looktwice.eval.scoring.verdict import (
    Levels,
    Metric,
    PointScores,
    Samples,
    ScoredRecord,
    Scorer,
    Verdict,
)
from looktwice.eval.statistics.intervals import find_scale, finite_mean
from looktwice.eval.statistics.paired import kruskal
from looktwice.pipelines.counted import format_number

MEASURED_PREFIX = "measured."
"""Prefix of the metrics of measurements in report.csv."""
TURNS_PREFIX = "turn."
"""Prefix of the metrics of single turns in report.csv."""
TURN_END_PREFIX = "turn_"
"""Prefix of the measurements that mark the ends of turns."""
MAX_DISTINCT_NUMBERS = 8
"""The largest number of distinct values by which samples are split into parts; with more values,
samples are split into quarters."""
ANSWERED_VERDICTS = (Verdict.RIGHT, Verdict.WRONG, Verdict.HIDDEN)
CIRCULAR_METRIC = "circular_accuracy"
Measurement = dict[str, float | str]
"""The measurement of each sample: a number for all of them, or a category for all of them."""


def accuracy(scores: PointScores) -> dict[str, float]:
    """Return the mean score of each asked sample with a correct answer; an unreadable or failed
    answer scores 0.

    Empty if every answer failed, because then nothing was measured. Samples that only a judge could
    score, and that no judge has scored, are left out.
    """
    if scores.failure:
        return {}
    return scores.select_keyed(scores.columns.graded_means)


def accuracy_answered(scores: PointScores) -> dict[str, float]:
    """Return the mean score of each sample over its draws with the verdict RIGHT or WRONG; samples
    without such a draw are left out."""
    columns = scores.columns
    return columns.means(columns["value"], columns.has_verdict(Verdict.RIGHT, Verdict.WRONG))


def coverage(scores: PointScores) -> dict[str, float]:
    """Return, for each asked sample, the share of draws with a readable answer: right, wrong, or
    without a correct answer to compare with."""
    columns = scores.columns
    return columns.means(columns.has_verdict(*ANSWERED_VERDICTS), np.ones(len(columns), bool))


METRICS: dict[str, Callable[[PointScores], Mapping[str, float]]] = {
    "accuracy": accuracy,
    "accuracy_answered": accuracy_answered,
    "coverage": coverage,
}
"""Functions, by metric name, that return a value (0..1) for each sample that the metric covers. A
metric that is added here gets rows in report.csv, including macro and micro, and a column in the
printed tables; `accuracy` stays first."""


# ---- draws, and levels


def list_right_by_draw(together: Iterable[Sequence[ScoredRecord | None]]) -> list[tuple[bool, ...]]:
    """Return, for each draw in which all of these samples were asked, whether each was right."""
    return [
        tuple(scored is not None and scored.verdict is Verdict.RIGHT for scored in draw)
        for draw in zip(*together, strict=False)
        if None not in draw
    ]


def compute_chance_levels(samples: Samples, scorer: Scorer | None) -> Levels:
    """Return the chance levels by metric: for accuracy, 1 / (number of choices); for other metrics,
    the levels that the benchmark's scorer gives."""
    levels = dict(scorer.chance(samples)) if scorer is not None else {}
    choices = [row.n_choices for row in samples.values()]
    return levels | {"accuracy": fmean(1 / n for n in choices)} if all(choices) else levels


class ControlScorer(Scorer):
    """A base class of scorers for tasks with `controls`, the meta fields that hold the levels of
    their parameters."""

    controls: tuple[str, ...]
    headlines: ClassVar[tuple[str, ...]] = ()  # accuracy is enough

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return, for every control with several levels, a test of its effect and the accuracy at
        each level."""
        values, metrics = accuracy(scores), list[Metric]()
        for control in self.controls:
            levels = defaultdict[Any, dict[str, float]](dict)
            for name, row in scores.keyed_samples.items():
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


# ---- measurements by stages


def collect_measurements(scores: PointScores) -> dict[str, Measurement]:
    """Return every measurement of an arm by name: for each sample, a number (the mean over draws)
    or a category (taken from the first draw).

    A measurement taken at every turn has a name for each turn, such as "overlap@1". The ends of
    turns are left out.
    """
    draws = defaultdict[str, dict[str, list[float | str]]](lambda: defaultdict(list))
    for sample, values_by_name in scores.columns.iterate_measurements():
        for name, value in values_by_name.items():
            many = isinstance(value, list | tuple)
            places = {f"{name}@{n}": at for n, at in enumerate(value, 1)} if many else {}
            for place, number in (places if many else {name: value}).items():
                if is_measurement(number) and not name.startswith(TURN_END_PREFIX):
                    draws[place][sample].append(number)
    measured = dict[str, Measurement]()
    for name, by_sample in draws.items():
        is_word = any(isinstance(values[0], str) for values in by_sample.values())
        for sample, values in by_sample.items():
            value = str(values[0]) if is_word else finite_mean(map(float, values))
            measured.setdefault(name, {})[sample] = value
    return measured


def is_measurement(value: Any) -> bool:
    """Return whether a value is a category, or a number within the range of a float; anything else
    counts as not measured."""
    return isinstance(value, str) or (value is not None and abs(value) <= sys.float_info.max)


def select_numbers(values: Measurement) -> dict[str, float]:
    """Return the values that are numbers rather than categories."""
    return {sample: value for sample, value in values.items() if not isinstance(value, str)}


def make_measured_metrics(scores: PointScores) -> Iterator[Metric]:
    """Yield a metric for each measured number (the mean) and for each measured category (its
    share)."""
    for name, values in collect_measurements(scores).items():
        if numbers := select_numbers(values):
            mean = finite_mean(numbers.values())
            yield Metric(MEASURED_PREFIX + name, numbers, value=mean, clusters=scores.clusters)
            continue
        for category in sorted(set(map(str, values.values()))):
            units = {sample: float(value == category) for sample, value in values.items()}
            yield Metric(f"{MEASURED_PREFIX}{name}={category}", units, clusters=scores.clusters)


def split_by_measurement(scores: PointScores, name: str) -> Mapping[str, str]:
    """Split the samples into parts by a measurement: by category, by number, or into quarters;
    return the part of each sample.

    A quarter is named by its number and bounds, "1: 0.02 to 0.11".
    """
    values = collect_measurements(scores).get(name, {})
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
