"""What stages measured on the samples (`State.measured`), as metrics with tests, and as parts of
the samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean

import numpy as np

from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.comparison import compare
from looktwice.eval.scoring.row import Row, fill
from looktwice.eval.scoring.verdict import PointScores, Verdict
from looktwice.eval.statistics.intervals import Clusters, cluster_codes, cluster_sums

MEASURED = "measured."
"""How the metrics of measurements begin in report.csv."""
TURNS = "turn."
"""How the metrics of single turns begin there."""
TURN = "turn_"
"""How the measurements begin that say where turns end; `turns` reads them."""
FEW = 8
"""So many different numbers are parts of their own; more are put into quarters."""

Values = Mapping[str, float] | Mapping[str, str]


def measurements(scores: PointScores) -> dict[str, Values]:
    """Every measurement of an arm by name: a number (the mean over draws) or a category (the first
    draw's) a sample.

    What was measured at every turn has a name for each, "overlap@1". Turns themselves are left out.
    """
    found: dict[str, dict[str, list[float | str]]] = {}
    if not any(entry.measured for entry in scores.all):
        return {}
    for sample, draws in scores.draws_asked.items():
        for entry in draws:
            for name, value in entry.measured.items():
                for turn, each in (
                    enumerate(value, 1) if isinstance(value, list | tuple) else ((0, value),)
                ):
                    if each is not None and not name.startswith(TURN):
                        found.setdefault(f"{name}@{turn}" if turn else name, {}).setdefault(
                            sample, []
                        ).append(each)
    return {name: _one_each(by_sample) for name, by_sample in found.items()}


def numbers_of(values: Values) -> dict[str, float]:
    """The values that are numbers and no categories."""
    return {sample: value for sample, value in values.items() if not isinstance(value, str)}


def measurement_rows(
    scores: PointScores, plain: Row, baseline: PointScores | None
) -> Iterator[Row]:
    """A row for each measured number, its mean with the t interval, and for each category, its
    share.

    Compared with the baseline on the samples of which both were measured.
    """
    others = dict(_metrics(baseline)) if baseline else {}
    for name, metric in _metrics(scores):
        row = fill(plain, metric)
        if metric.value is not None:
            found = mean_interval(
                [*metric.units.values()], [scores.clusters[unit] for unit in metric.units]
            )
            row = replace(
                row,
                low=found[0],
                high=found[1],
                clusters=len({scores.clusters[u] for u in metric.units}),
            )
        if baseline and (other := others.get(name)):
            row = compare(row, baseline.contestant, [(metric, other)])
        yield row


def measured_parts(scores: PointScores, name: str) -> Mapping[str, str]:
    """The part to which each sample belongs by a measurement: its category, its number, or the
    quarter of the numbers.

    A quarter is named by its number and bounds, "1: 0.02 to 0.11".
    """
    values = measurements(scores).get(name, {})
    numbers = numbers_of(values)
    if len(numbers) < len(values) or len(set(numbers.values())) <= FEW:
        return {
            sample: value if isinstance(value, str) else f"{value:g}"
            for sample, value in values.items()
        }
    edges = np.quantile(list(numbers.values()), (0, 0.25, 0.5, 0.75, 1))
    places = {sample: int(np.searchsorted(edges[1:-1], value)) for sample, value in numbers.items()}
    return {
        sample: f"{n + 1}: {edges[n]:.3g} to {edges[n + 1]:.3g}" for sample, n in places.items()
    }


def rightness(scores: PointScores) -> dict[str, float]:
    """The share of draws that are right, of every sample with a key whose draws did not all
    fail."""
    return {
        name: fmean(draw.verdict is Verdict.RIGHT for draw in scores.not_failed(name))
        for name in scores.comparable
    }


def mean_interval(
    values: Sequence[float], clusters: Clusters, level: float = 0.95
) -> tuple[float | None, float | None]:
    """The t interval of a mean over clusters; none where there is no spread to tell it from.

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
    half = float(stdtrit(freedom, 0.5 + level / 2)) * error
    if min(values) >= 0 and max(values) <= 1:
        return max(0.0, mean - half), min(1.0, mean + half)
    return mean - half, mean + half


def _one_each(by_sample: Mapping[str, list[float | str]]) -> Values:
    first = {sample: draws[0] for sample, draws in by_sample.items()}
    if any(isinstance(value, str) for value in first.values()):
        return {sample: str(value) for sample, value in first.items()}
    return {sample: fmean(float(value) for value in draws) for sample, draws in by_sample.items()}


def _metrics(scores: PointScores) -> Iterator[tuple[str, Metric]]:
    for name, values in measurements(scores).items():
        if numbers := numbers_of(values):
            value = fmean(numbers.values())
            yield name, Metric(MEASURED + name, numbers, value=value, clusters=scores.clusters)
            continue
        for category in sorted(set(map(str, values.values()))):
            units = {sample: float(value == category) for sample, value in values.items()}
            yield (
                f"{name}={category}",
                Metric(f"{MEASURED}{name}={category}", units, clusters=scores.clusters),
            )
