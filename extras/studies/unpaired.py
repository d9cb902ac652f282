"""Comparisons of two independent groups: of their shares, and of their means."""

from __future__ import annotations

from math import hypot, isfinite, sqrt
from statistics import fmean

import numpy as np

from looktwice.eval.statistics.intervals import (
    CONFIDENCE_LEVEL,
    Clusters,
    Estimate,
    Floats,
    cluster_sums,
    find_scale,
    square_sum,
    student_quantile,
)


def compute_clopper_pearson(k: int, n: int) -> tuple[float, float]:
    """Compute the exact interval of a share of k out of n (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE_LEVEL) / 2
    low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
    return low, float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0


def compare_shares(k: int, n: int, other: int, other_n: int) -> Estimate:
    """Compare the shares `k` / `n` and `other` / `other_n` in two independent samples.

    The p-value is Fisher's exact test, two-sided; the interval combines the exact intervals of
    both, as Newcombe (1998) combines Wilson's. With 12 or more units in each sample its coverage is
    at least 95 %, by complete enumeration.
    """
    from scipy.special import gammaln

    share, rival = k / n, other / other_n
    (low, high), (floor, top) = (
        compute_clopper_pearson(k, n),
        compute_clopper_pearson(other, other_n),
    )
    gap = share - rival
    below, above = hypot(share - low, top - rival), hypot(high - share, rival - floor)
    right = np.arange(max(0, k + other - other_n), min(n, k + other) + 1)
    wrong, left = n - right, k + other - right
    terms = [right, wrong, left, other_n - left]
    logs = -np.sum([gammaln(np.asarray(term) + 1.0) for term in terms], axis=0)
    chances = np.exp(logs - logs.max())
    as_rare = chances <= chances[k - right[0]] * (1 + 1e-9)
    p = float(chances[as_rare].sum() / chances.sum())
    units = n + other_n
    return Estimate(
        gap, max(-1.0, gap - below), min(1.0, gap + above), units, units, p, test="Fisher"
    )


def compare_means(values: Floats, others: Floats, clusters: Clusters) -> Estimate | None:
    """Compute the difference of the means of two groups with its 95 % t interval and p.

    Return None if a group has fewer than two values, if no value varies, or if a limit exceeds the
    range of floats. `clusters` holds the clusters of the first group, then of the second. For
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
