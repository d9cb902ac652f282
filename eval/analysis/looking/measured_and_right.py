"""What was measured, beside being right: means of right and other samples, accuracy by category or
by quarter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from statistics import fmean, variance

import numpy as np

from looktwice.eval.display.text_tables import TextTable, format_p, share_cell
from looktwice.eval.page.data import PageLines
from looktwice.eval.scoring.measurements import (
    Measured,
    mean_interval,
    measured_parts,
    measurements,
    numbers_of,
    rightness,
)
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import (
    Estimate,
    cluster_codes,
    cluster_sums,
    share_interval,
)

_Points = Sequence[tuple[float, float, float, float]]


def measurement_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each measured number, and one for each category, of every arm.

    Of a number: the mean with its interval, the means of right and of other samples, and the
    difference of the two with Welch's interval and p. Of a category: the accuracy of its samples
    with its interval.
    """
    header = (
        "contestant",
        "task",
        "measured",
        "n",
        "mean",
        "right",
        "not right",
        "difference",
        "p",
        "accuracy\n%",
    )
    arms = [scores for run in runs for scores in run.points]
    rows = [line for scores in arms for line in _lines(scores)]
    table = TextTable(header, rows, text_columns=3).without_empty()
    return table if len({scores.task for scores in arms}) > 1 else table.without("task")


def measurement_curves(run: RunScores, task: str) -> list[PageLines]:
    """Accuracy against each measured number on a task: a line for each arm, over the quarters of
    its own numbers."""
    lines: dict[str, dict[str, _Points]] = defaultdict(dict)
    for scores in run.points:
        if scores.point.task == task:
            right = rightness(scores)
            for name, values in measurements(scores).items():
                points = sorted(_points(scores, name, values, right))
                if len(points) > 1:
                    lines[name][scores.contestant] = points
    return [
        PageLines(f"measured {name}", task, dict([*drawn.items()][:8]))
        for name, drawn in lines.items()
    ]


def _points(
    scores: PointScores, name: str, values: Measured, right: Mapping[str, float]
) -> Iterator[tuple[float, float, float, float]]:
    """Of each part: the mean of its numbers, and its accuracy with the interval."""
    members: dict[str, list[str]] = defaultdict(list)
    for sample, part in measured_parts(scores, name).items():
        if sample in right and not isinstance(values[sample], str):
            members[part].append(sample)
    for samples in members.values():
        x = fmean(float(values[sample]) for sample in samples)
        share = _share(scores, samples, right)
        yield x, share.value, share.low, share.high


def _share(scores: PointScores, samples: Sequence[str], right: Mapping[str, float]) -> Estimate:
    return share_interval(
        [right[sample] for sample in samples], [scores.clusters[sample] for sample in samples]
    )


def _lines(scores: PointScores) -> Iterator[tuple[str, ...]]:
    right = rightness(scores)
    for name, values in measurements(scores).items():
        if numbers := numbers_of(values):
            cells = _number_cells(scores, numbers, right)
            yield scores.contestant, scores.task, name, str(len(numbers)), *cells, ""
            continue
        for category in sorted(set(map(str, values.values()))):
            members = [
                sample for sample, value in values.items() if value == category and sample in right
            ]
            if members:
                share = _share(scores, members, right)
                shown = share_cell(share)
                yield (
                    scores.contestant,
                    scores.task,
                    f"{name}: {category}",
                    str(len(members)),
                    *[""] * 5,
                    shown,
                )


def _number_cells(
    scores: PointScores, numbers: Mapping[str, float], right: Mapping[str, float]
) -> tuple[str, ...]:
    low, high = mean_interval([*numbers.values()], [scores.clusters[sample] for sample in numbers])
    mean = f"{fmean(numbers.values()):.3g}" + ("" if low is None else f"\n{low:.3g} to {high:.3g}")
    mine = {sample: value for sample, value in numbers.items() if right.get(sample, -1) > 0.5}
    others = {
        sample: value for sample, value in numbers.items() if 0 <= right.get(sample, -1) <= 0.5
    }
    means = tuple(f"{fmean(side.values()):.3g}" if side else "" for side in (mine, others))
    gap = _gap(mine, others, scores.clusters)
    if gap is None:
        return (mean, *means, "", "")
    return (mean, *means, f"{gap.value:+.3g}\n{gap.low:.3g} to {gap.high:.3g}", format_p(gap.p))


def _gap(
    mine: Mapping[str, float], others: Mapping[str, float], clusters: Mapping[str, str]
) -> Estimate | None:
    """The difference of two means with its 95 % t interval and p; None without any spread.

    Of samples that stand alone it is Welch's (1947); else its variance is that between clusters,
    which may have samples of both kinds.
    """
    if min(len(mine), len(others)) < 2:
        return None
    from scipy.special import stdtr, stdtrit

    sides, names = (
        [[*mine.values()], [*others.values()]],
        [clusters[sample] for sample in (*mine, *others)],
    )
    gap, parts = fmean(sides[0]) - fmean(sides[1]), [variance(side) / len(side) for side in sides]
    off = [(np.array(side) - fmean(side)) / len(side) for side in sides]
    sums, sizes = cluster_sums(np.concatenate((off[0], -off[1])), cluster_codes(names, len(names)))
    m = len(sizes)
    alone = m == len(names)
    error = sqrt(sum(parts) if alone else float(np.square(sums).sum()) * m / max(1, m - 1))
    if error < 1e-12 or m < 2:
        return None
    freedom = max(1.0, len(names) ** 2 / float(np.square(sizes).sum()) - 1)
    if alone:
        freedom = error**4 / sum(
            part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True)
        )
    half = float(stdtrit(freedom, 0.975)) * error
    return Estimate(
        gap, gap - half, gap + half, len(names), m, float(2 * stdtr(freedom, -abs(gap) / error))
    )
