"""Means of measured numbers other than shares, and the difference of two such means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite, sqrt
from statistics import fmean

import numpy as np

from looktwice.eval.statistics.intervals import (
    Clusters,
    Estimate,
    Floats,
    cluster_sums,
    square_sum,
    student_quantile,
)

MAX_UNSCALED = 1e100
"""Larger numbers are scaled down before they are summed or squared, because their squares exceed
the range of floats."""


def finite_mean(values: Iterable[float]) -> float:
    """Return the mean of finite numbers of any size. Raises ValueError if there are no numbers."""
    numbers = [*values]
    scale = find_scale(numbers)
    return fmean([number / scale for number in numbers]) * scale


def mean_interval(values: Sequence[float], clusters: Clusters) -> tuple[float | None, float | None]:
    """Compute the 95 % t interval of a mean over clusters; (None, None) if the values do not vary,
    or if a limit exceeds the range of floats.

    It stays within 0..1 if all values do, as shares do.
    """
    scale = find_scale(values)
    numbers = np.array(values, float) / scale
    mean = fmean(numbers)
    off, sizes = cluster_sums(numbers - mean, clusters)
    spread = square_sum(off)
    if len(sizes) < 2 or spread < 1e-24:
        return None, None
    freedom = max(1.0, len(values) ** 2 / square_sum(sizes) - 1)
    error = sqrt(spread * len(sizes) / (len(sizes) - 1)) / len(values)
    half = student_quantile(freedom) * error
    if min(values) >= 0 and max(values) <= 1:
        return max(0.0, mean - half), min(1.0, mean + half)
    low, high = (mean - half) * scale, (mean + half) * scale
    return (low, high) if isfinite(low) and isfinite(high) else (None, None)


def compare_means(values: Floats, others: Floats, clusters: Clusters) -> Estimate | None:
    """Compute the difference of the means of two groups with its 95 % t interval and p.

    Returns None for fewer than two values in a group, without any spread, and if a limit exceeds
    the range of floats. `clusters` holds the clusters of the first group, then of the second. For
    independent units this is Welch's test (1947); otherwise the variance is that between clusters,
    which may contain units of both groups.
    """
    scale = find_scale([*values, *others])
    sides = np.asarray(values, float) / scale, np.asarray(others, float) / scale
    counts = np.array([*map(len, sides)])
    if counts.min() < 2:
        return None
    from scipy.special import stdtr

    n = int(counts.sum())
    off = [(side - fmean(side)) / len(side) for side in sides]
    sums, sizes = cluster_sums(np.concatenate([off[0], -off[1]]), clusters)
    m = len(sizes)
    parts = np.array([side.var(ddof=1) for side in sides]) / counts
    variance = parts.sum() if m == n else square_sum(sums) * m / max(1, m - 1)
    error = sqrt(variance)
    if error < 1e-12 or m < 2:
        return None
    if m == n:
        freedom = error**4 / float((parts**2 / (counts - 1)).sum())
    else:
        freedom = max(1.0, n**2 / square_sum(sizes) - 1)
    gap = fmean(sides[0]) - fmean(sides[1])
    half, p = student_quantile(freedom) * error, 2 * stdtr(freedom, -abs(gap) / error)
    value, low, high = (scale * end for end in (gap, gap - half, gap + half))
    if not (isfinite(low) and isfinite(high)):
        return None
    return Estimate(value, low, high, n, m, float(p))


def find_scale(values: Sequence[float]) -> float:
    """Return the divisor to apply before values are summed or squared: 1, or the largest value if
    it is very large."""
    largest = max(map(abs, values), default=0.0)
    return float(largest) if largest > MAX_UNSCALED else 1.0
