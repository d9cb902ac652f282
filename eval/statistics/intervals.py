"""Intervals over clusters: samples that share a picture, a pair or a group count together.

Of shares in closed form, Wilson's with as many units as clusters and spread leave
(`share_interval`); of measured numbers Student's t (`means.py`); of all else by a bootstrap that
draws whole clusters."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import fsum, hypot, nan, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 10_000
MANY, FEW = 500, 1_000  # of more kinds of clusters than this, so many resamples must do
LEVEL = 0.95
PRIOR = 12  # clusters of equal values that a design effect is estimated with
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Clusters = Sequence[Hashable] | Codes
"""The name of each value's cluster, or its number as `cluster_codes` gives it."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; `n` values in `clusters` clusters stand behind it.

    Of a difference `p` is two-sided, by the test that is named. Of two contestants on the same
    units `better` and `worse` count units, and `detectable` is the smallest difference that the
    test shows with 80 % power. What was not asked for is NaN, 0 or empty.
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int
    p: float = nan
    better: int = 0
    worse: int = 0
    detectable: float = nan
    test: str = ""

    def __eq__(self, other: object) -> bool:
        """Whether all is the same; what neither was asked for is."""
        if not isinstance(other, Estimate):
            return NotImplemented
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(one == two or (one != one and two != two) for one, two in pairs)


def cluster_codes(clusters: Clusters | None, n: int) -> Codes:
    """A number 0, 1, 2 ... for the cluster of each of n values; None: each is its own.

    Raises ValueError for another number of clusters than values, and for no values.
    """
    if n < 1 or (clusters is not None and len(clusters) != n):
        given = "" if clusters is None else f" and {len(clusters)} clusters"
        raise ValueError(
            f"an interval needs values, each with its cluster; found {n} values{given}"
        )
    if clusters is None:
        return np.arange(n)
    if isinstance(clusters, np.ndarray):
        return np.unique(clusters, return_inverse=True)[1]
    places = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    return np.fromiter(map(places.__getitem__, clusters), np.int64, n)


def square_sum(values: Floats) -> float:
    """The sum of the squares of all values."""
    return float(np.square(values).sum())


def cluster_sums(values: Floats, clusters: Clusters | None) -> tuple[Floats, Floats]:
    """The sum of the values of each cluster, along the first axis, and the sizes of the clusters.

    Sums are rounded to 12 digits: in what order values were added must not make two kinds of
    clusters of one. Raises ValueError as `cluster_codes` does.
    """
    codes = cluster_codes(clusters, len(values))
    columns = values.astype(float).reshape(len(values), -1).T
    sums: Floats = np.column_stack([np.bincount(codes, column) for column in columns])
    return sums.reshape(-1, *values.shape[1:]).round(12), np.bincount(codes).astype(float)


def resampled_means(
    sums: Floats, sizes: Floats, weights: Floats | None = None, *, resamples: int = RESAMPLES
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
    random, drawn = np.random.default_rng(0), round(counts.sum())
    if len(kinds) <= MANY:
        totals = random.multinomial(drawn, counts / counts.sum(), size=resamples) @ kinds
    else:
        # a weight of one half is one row
        rows = np.repeat(kinds, np.round(2 * counts).astype(int), axis=0)
        picks = (random.integers(0, len(rows), drawn) for _ in range(min(resamples, FEW)))
        totals = np.array([rows[pick].sum(axis=0) for pick in picks])
    return totals[:, :-1] / totals[:, -1:]


def student(freedom: float) -> float:
    """Student's quantile for a 95 % interval, with so many degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + LEVEL / 2))


def percentile_interval(means: Floats, clusters: int) -> tuple[float, float]:
    """The percentiles of resampled means, widened for few clusters (Hesterberg 2015, "expanded
    percentile interval").

    The plain percentiles are too narrow for m clusters by sqrt((m - 1) / m) and by normal for
    Student's quantiles.
    """
    from scipy.special import ndtr

    reach = sqrt(clusters / (clusters - 1)) * student(clusters - 1)
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
    sums, sizes = cluster_sums(columns, clusters)
    value = float(statistic(columns.mean(axis=0)[None])[0])
    low, high = least, 1.0
    if len(sizes) > 1:
        low, high = percentile_interval(statistic(resampled_means(sums, sizes)), len(sizes))
    return Estimate(value, min(low, value), max(high, value), len(columns), len(sizes))


def bootstrap_mean(
    values: ArrayLike,
    clusters: Clusters | None = None,
    *,
    floor: float = 0.0,
    resamples: int = RESAMPLES,
    strata: Clusters | None = None,
) -> Estimate:
    """The mean of values in `floor`..1 with its cluster bootstrap interval, always the same.

    Before resampling, half a value at `floor`, half a one at 1 and one in the middle are added,
    each a cluster of its own: without them values that are all alike would have an interval
    without width, and few unlike ones a narrow one. For paired right or wrong answers this is half
    an item in each cell of their table (Agresti and Min 2005). Where clusters hold several values,
    each added value counts as many of them as `_independent_weight` says. Where all values are
    alike, the interval reaches at least as far as if the share of clusters that Wilson's limit
    still leaves possible after none of them lay at a limit: 7.4 points after 48 pairs without any
    difference. `strata` names the task of each value: values vary around the mean of their task, so
    that tasks with different means do not widen the interval. The mean is of the values alone,
    which may lie beyond the limits. Raises ValueError for no values.
    """
    data = np.asarray(values, float)
    mean = fsum(data.tolist()) / len(data)
    varying = data if strata is None else _around_one_mean(data, mean, clusters, strata)
    sums, sizes = cluster_sums(varying, clusters)
    weight = _independent_weight(varying - mean, sums - sizes * mean, sizes)
    sums = np.round(sums, 2) if len(sums) > MANY else sums  # graded values would make many kinds
    shift = mean - fsum(sums.tolist()) / len(data)
    means = resampled_means(
        np.append(sums, weight * np.array([floor, (floor + 1) / 2, 1.0])),
        np.append(sizes, np.full(3, weight)),
        np.append(np.ones(len(sizes)), [0.5, 1.0, 0.5]),
        resamples=resamples,
    )
    low, high = percentile_interval(means[:, 0] + shift, len(sizes) + 2)
    if float(np.ptp(varying)) < 1e-12:
        unseen = Z * Z / (len(sizes) + Z * Z)  # Wilson's upper limit for none of so many
        low = min(low, mean - unseen * (mean - floor))
        high = max(high, mean + unseen * (1.0 - mean))
    # rounded sums may go a little beyond
    low = max(min(floor, float(data.min())), min(low, mean))
    high = min(max(1.0, float(data.max())), max(high, mean))
    return Estimate(mean, low, high, len(data), len(sizes))


def _independent_weight(off: Floats, sums: Floats, sizes: Floats) -> float:
    """How many values of a cluster weigh as much as one independent value: the design effect.

    `off` are the deviations of the values from the mean, `sums` those of the clusters. The design
    effect is 1 where each value is its own cluster. It is estimated with as many degrees of freedom
    as the fourth moments of the sums leave; to these, `PRIOR` clusters are added whose values are
    all alike. Otherwise, where few clusters differ, the estimate and the interval would both be too
    small when the clusters that vary most happen to be missing.
    """
    whole = square_sum(sizes) / float(sizes.sum())
    squares = square_sum(off)
    if whole < 1 + 1e-9 or squares < 1e-12:
        return whole
    effect = min(whole, max(1.0, square_sum(sums) / squares))
    freedom = _degrees_of_freedom(np.square(sums), len(sizes) - 1.0)
    return float((freedom * effect + PRIOR * whole) / (freedom + PRIOR))


def _degrees_of_freedom(squares: Floats, most: float) -> float:
    """The degrees of freedom of a variance that is the sum of these squares, by their own spread;
    at most `most`."""
    total = float(squares.sum())
    if total < 1e-12:
        return most
    uneven = square_sum(squares) - total * total / len(squares)
    return min(most, 2 * total * total / max(uneven, 1e-12 * total * total))


def _around_one_mean(
    data: Floats, mean: float, clusters: Clusters | None, strata: Clusters
) -> Floats:
    """The values moved so that each stratum has the mean of all of them.

    Deviations are scaled up by what the estimated mean of their stratum takes from them. The values
    of a stratum with a single cluster say nothing about its own spread and stay as they are.
    """
    codes, tasks = cluster_codes(clusters, len(data)), cluster_codes(strata, len(data))
    moved = data.copy()
    count = int(tasks.max()) + 1
    for task in range(count) if count > 1 else ():
        here = tasks == task
        held = len(np.unique(codes[here]))
        if held > 1:
            off = data[here] - data[here].mean()
            moved[here] = (mean + sqrt(held / (held - 1)) * off).round(12)
    return moved


class Stratum(NamedTuple):
    """The values in 0..1 of one task, the names of their clusters (None: each its own), its weight
    and its centre.

    Clusters of one name are the same in all strata: a picture that two tasks ask about, a question
    asked twice. `centre` is what each value varies around, where that is not their mean: for
    variants of a task the mean of its own.
    """

    values: Floats
    clusters: Clusters | None = None
    weight: float = 1.0
    centre: Floats | None = None


def wilson(total: float, n: float) -> tuple[float, float]:
    """Wilson's score interval (Wilson 1927) for a share of `total` out of `n` units that stand
    alone, each in 0..1.

    The same as scipy's `binomtest(...).proportion_ci(method="wilson")`, but n may be an effective
    number. Intervals of results are those of `share_interval`. Raises ValueError for n <= 0 or a
    total outside 0..n.
    """
    if n <= 0 or not -1e-9 <= total <= n + 1e-9:
        raise ValueError(f"a share needs n > 0 and 0 <= total <= n, found total={total}, n={n}")
    p, square = total / n, Z * Z / n
    centre = (p + Z * Z / (2 * n)) / (1 + square)
    half = Z / (1 + square) * sqrt(max(0.0, p * (1 - p) / n + Z * Z / (4 * n * n)))
    low = 0.0 if total <= 0 else max(0.0, centre - half)
    return low, (1.0 if total >= n else min(1.0, centre + half))


def clopper_pearson(k: int, n: int) -> tuple[float, float]:
    """The exact interval of a share of k out of n (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    tail = (1 - LEVEL) / 2
    low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
    return low, float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0


def two_shares(k: int, n: int, other: int, of: int) -> Estimate:
    """k of n less `other` out of `of`, two samples with nothing in common: Fisher's exact p,
    two-sided, and the interval that the exact ones of both give, joined as Newcombe 1998 joins
    Wilson's. Counted out over all outcomes it holds 95 % and more from 12 in each sample on."""
    from scipy.special import gammaln

    share, rival = k / n, other / of
    (low, high), (floor, top) = clopper_pearson(k, n), clopper_pearson(other, of)
    gap = share - rival
    below, above = hypot(share - low, top - rival), hypot(high - share, rival - floor)
    right = np.arange(max(0, k + other - of), min(n, k + other) + 1)
    wrong, left = n - right, k + other - right
    terms = [right, wrong, left, of - left]
    logs = -np.sum([gammaln(np.asarray(term) + 1.0) for term in terms], axis=0)
    chances = np.exp(logs - logs.max())
    as_rare = chances <= chances[k - right[0]] * (1 + 1e-9)
    p = float(chances[as_rare].sum() / chances.sum())
    units = n + of
    return Estimate(
        gap, max(-1.0, gap - below), min(1.0, gap + above), units, units, p, test="Fisher"
    )


def share_interval(
    values: ArrayLike, clusters: Clusters | None = None, centre: ArrayLike | None = None
) -> Estimate:
    """The mean of values in 0..1 with its interval: Wilson's, where n is the effective number of
    units.

    That is p (1 - p) over the variance of the mean, which the clusters tell by their sums (a ratio
    estimate, with each cluster's own weight taken out of its square as by a jackknife), less what
    Student's quantile asks for few clusters (Korn and Graubard 1998; Franco et al. 2019). Its
    degrees of freedom are what the fourth moments leave: where two clusters hold all that is wrong
    there are few. The number lies between that of clusters, as if all units of one were alike (of
    unequal ones (sum n)^2 / sum n^2), and that of the units, as if each stood alone. So it is
    Wilson's own interval where each unit is right or wrong and its own cluster, and keeps a width
    where all values are alike. `centre` is what the values vary around, their mean if not given.
    Raises ValueError for no values and for values outside 0..1.
    """
    data = np.asarray(values, float)
    codes = cluster_codes(clusters, len(data))
    if float(data.min()) < -1e-9 or float(data.max()) > 1 + 1e-9:
        raise ValueError(f"a share needs values in 0..1, found {data.min():g} to {data.max():g}")
    mean = min(1.0, max(0.0, fsum(data.tolist()) / len(data)))
    off = data - (mean if centre is None else np.asarray(centre, float))
    sums, sizes = cluster_sums(off, codes)
    effective = _effective_units(sums, sizes, mean, square_sum(off))
    low, high = wilson(mean * effective, effective)
    return Estimate(mean, min(low, mean), max(high, mean), len(data), len(sizes))


def mean_of_shares(strata: Sequence[Stratum]) -> Estimate:
    """The weighted mean of the means of strata with its interval, by their limits and correlations
    (MOVER).

    With means p_i, limits (l_i, u_i), weights w_i and correlations r_ij it is mean - sqrt(sum_ij
    w_i w_j r_ij (p_i - l_i) (p_j - l_j)), and so above (Zou 2007; Zou and Donner 2008). The r_ij
    are those of the sums of shared clusters, 0 where no cluster is shared, and 1 where some are but
    one stratum is all alike. For one stratum it is `share_interval`. Raises ValueError as that
    does, and for no strata.
    """
    if not strata:
        raise ValueError("a mean of shares needs at least one stratum")
    whole, together = _link_clusters(strata)
    count = len(together)
    moved, alike = np.zeros((2, count)), np.zeros((2, len(strata)))
    value = 0.0
    for stratum, codes in zip(strata, whole, strict=True):
        places, own = np.unique(codes, return_inverse=True)
        share = share_interval(stratum.values, own, stratum.centre)
        reach = stratum.weight * np.array([share.value - share.low, share.high - share.value])
        centre = share.value if stratum.centre is None else stratum.centre
        off, _ = cluster_sums(stratum.values - centre, own)
        length = sqrt(square_sum(off))
        value += stratum.weight * share.value
        if length > 1e-9:
            moved[:, places] += np.outer(reach, off / length)
        else:
            alike[:, together[codes[0]]] += reach
    squares = np.zeros((2, len(strata)))
    for side in range(2):
        np.add.at(squares[side], together, np.square(moved[side]))
    below, above = np.sqrt(np.square(np.sqrt(squares) + alike).sum(axis=1)).tolist()
    n = sum(len(codes) for codes in whole)
    return Estimate(value, max(0.0, value - below), min(1.0, value + above), n, count)


def _effective_units(sums: Floats, sizes: Floats, mean: float, squares: float) -> float:
    """How many units that stand alone tell as much about the mean.

    `sums` are those of the clusters, and `squares` the sum of the squares, of what the values lie
    off their centre.
    """
    n = float(sizes.sum())
    fewest = n * n / square_sum(sizes)
    off = np.square(sums)
    room, total = n * n * mean * (1 - mean), float(off.sum())
    if total < 1e-12 or room / squares < fewest + 1e-9:
        return fewest
    freedom = _degrees_of_freedom(off, fewest - 1)
    quantiles = Z / student(max(1.0, freedom))
    variance = float((off / np.square(1 - sizes / n)).sum())
    return max(fewest, min(room / squares, room / variance * quantiles**2))


def _link_clusters(strata: Sequence[Stratum]) -> tuple[list[Codes], Codes]:
    """The number of each value's cluster, the same in all strata; and for each cluster the number
    of a set of strata: those that share clusters, directly or by others, are in one."""
    numbers, whole = dict[object, int](), list[Codes]()
    for number, stratum in enumerate(strata):
        alone = [(number, unit) for unit in range(len(stratum.values))]
        names = alone if stratum.clusters is None else stratum.clusters
        whole.append(np.array([numbers.setdefault(name, len(numbers)) for name in names]))
    count = 1 + max(int(codes.max()) for codes in whole)
    sets, owners = np.arange(len(whole)), np.full(count, -1)
    for number, codes in enumerate(whole):
        met = owners[codes]
        sets[np.isin(sets, sets[met[met >= 0]])] = number
        owners[codes] = number
    return whole, np.asarray(sets[owners])
