"""Bootstrap intervals over clusters: samples that share a picture, a pair or a group are drawn
together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES, SEED = 10_000, 0
MANY, FEW = 500, 1_000  # of more kinds of clusters than this, so many resamples must do

Floats = NDArray[np.float64]
Clusters = Sequence[Hashable] | NDArray[np.int64]
"""The name of each value's cluster, or its number as `cluster_codes` gives it."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval; `n` values in `clusters` clusters stand behind it."""

    value: float
    low: float
    high: float
    n: int
    clusters: int


def cluster_codes(clusters: Clusters | None, n: int) -> NDArray[np.int64]:
    """A number 0, 1, 2 ... for the cluster of each of n values, in order of appearance; None: each
    is its own.

    An array is what this gave, and stays as it is. Raises ValueError for another number of clusters
    than values, and for no values.
    """
    if n < 1 or (clusters is not None and len(clusters) != n):
        found = "" if clusters is None else f" and {len(clusters)} clusters"
        raise ValueError(
            f"an interval needs values, each with its cluster; found {n} values{found}"
        )
    if clusters is None:
        return np.arange(n)
    if isinstance(clusters, np.ndarray):
        return clusters
    places = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    return (
        np.arange(n)
        if len(places) == n
        else np.fromiter(map(places.__getitem__, clusters), np.int64, n)
    )


def cluster_sums(values: Floats, codes: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The sum of the values of each cluster, along the first axis, and the sizes of the clusters.

    Sums are rounded to 12 digits: in what order values were added must not make two kinds of
    clusters of one.
    """
    columns = values.astype(float).reshape(len(values), -1).T
    sums: Floats = np.column_stack([np.bincount(codes, column) for column in columns])
    return sums.reshape(-1, *values.shape[1:]).round(12), np.bincount(codes).astype(float)


def resampled_means(
    sums: Floats,
    sizes: Floats,
    weights: Floats | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Floats:
    """The means of `resamples` samples of as many clusters, drawn with replacement; one column for
    each of `sums`.

    `weights` count each cluster more or less often than once. Clusters of equal sums and sizes are
    counted together, so that a sample is one draw of a multinomial: right and wrong answers make
    few kinds of clusters. Where there are more than 500 kinds, 1,000 resamples are drawn at most.
    `weights` are whole or half numbers.
    """
    columns = np.column_stack([sums.reshape(len(sizes), -1), sizes])
    kind = np.zeros(len(sizes), np.int64)
    for column in columns.T:  # sorting rows takes many times as long
        _, code = np.unique(column, return_inverse=True)
        _, kind = np.unique(kind * (int(code.max()) + 1) + code, return_inverse=True)
    kinds, counts = np.empty((int(kind.max()) + 1, columns.shape[1])), np.bincount(kind, weights)
    kinds[kind] = columns
    random, drawn = np.random.default_rng(seed), round(counts.sum())
    if len(kinds) <= MANY:
        totals = random.multinomial(drawn, counts / counts.sum(), size=resamples) @ kinds
    else:
        each = np.repeat(
            kinds, np.round(2 * counts).astype(int), axis=0
        )  # a weight of one half is one row
        draws = (
            each[random.integers(0, len(each), drawn)].sum(axis=0)
            for _ in range(min(resamples, FEW))
        )
        totals = np.array([*draws])
    return np.asarray(totals[:, :-1] / totals[:, -1:])


def percentile_interval(means: Floats, clusters: int, level: float = 0.95) -> tuple[float, float]:
    """The percentiles of resampled means, widened for few clusters (Hesterberg 2015, "expanded
    percentile interval").

    The plain percentiles are too narrow for m clusters by sqrt((m - 1) / m) and by normal for
    Student's quantiles.
    """
    from scipy.special import ndtr, stdtrit

    reach = sqrt(clusters / (clusters - 1)) * float(stdtrit(clusters - 1, 0.5 + level / 2))
    tail = float(ndtr(-reach))
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def bootstrap_statistic(
    columns: Floats, clusters: Clusters | None, statistic: Callable[[Floats], Floats], least: float
) -> Estimate:
    """A statistic in least..1 of the means of columns (n values, columns), with its cluster
    bootstrap interval.

    `statistic` gives a number for each row of means. Of one cluster the interval is the whole
    range.
    """
    sums, sizes = cluster_sums(columns, cluster_codes(clusters, len(columns)))
    value = float(statistic(columns.mean(axis=0)[None])[0])
    low, high = least, 1.0
    if len(sizes) > 1:
        low, high = percentile_interval(statistic(resampled_means(sums, sizes)), len(sizes))
    return Estimate(value, min(low, value), max(high, value), len(columns), len(sizes))


def bootstrap_mean(
    values: ArrayLike,
    clusters: Clusters | None = None,
    *,
    level: float = 0.95,
    limit: float = 1.0,
    floor: float = 0.0,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Estimate:
    """The mean of n values with its cluster bootstrap interval, the same at every call.

    Before resampling, half a value at `floor`, half a one at `limit` and one in the middle are
    added, each a cluster of its own: without them values that are all alike would have an interval
    without width, and few unlike ones a narrow one. For paired right or wrong answers this is half
    an item in each cell of their table (Agresti and Min 2005). Where all values are alike, the
    interval reaches at least as far as if the share of clusters that Wilson's limit still leaves
    possible after none of them lay at a limit: 7.4 points after 48 pairs without any difference.
    The mean is of the values alone, which may lie beyond the limits. Raises ValueError for no
    values.
    """
    data = np.asarray(values, float)
    codes = cluster_codes(clusters, len(data))
    sums, sizes = cluster_sums(data, codes)
    mean = fsum(data.tolist()) / len(data)
    sums = np.round(sums, 2) if len(sums) > MANY else sums  # graded values would make many kinds
    shift = mean - fsum(sums.tolist()) / len(data)
    padded, weights = (
        [floor, (floor + limit) / 2, limit],
        np.append(np.ones(len(sizes)), [0.5, 1.0, 0.5]),
    )
    means = resampled_means(
        np.append(sums, padded),
        np.append(sizes, np.ones(3)),
        weights,
        resamples=resamples,
        seed=seed,
    )
    low, high = percentile_interval(means[:, 0] + shift, len(sizes) + 2, level)
    if float(np.ptp(data)) == 0:
        z = NormalDist().inv_cdf(0.5 + level / 2)
        unseen = z * z / (len(sizes) + z * z)  # Wilson's upper limit for none of so many
        low, high = (
            min(low, mean - unseen * (mean - floor)),
            max(high, mean + unseen * (limit - mean)),
        )
    ends = (
        min(floor, float(data.min())),
        max(limit, float(data.max())),
    )  # rounded sums may go a little beyond
    return Estimate(
        mean, max(ends[0], min(low, mean)), min(ends[1], max(high, mean)), len(data), len(sizes)
    )
