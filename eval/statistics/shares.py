"""Intervals of shares in closed form: Wilson's, with as many units as clusters and spread leave,
without resampling."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looktwice.eval.statistics.bootstrap import (
    Clusters,
    Estimate,
    Floats,
    cluster_codes,
    cluster_sums,
)

Interval = tuple[float, float]
LEVEL = 0.95


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


def wilson(total: float, n: float, level: float = LEVEL) -> Interval:
    """Wilson's score interval (Wilson 1927) for a share of `total` out of `n` units that stand
    alone, each in 0..1.

    The same as scipy's `binomtest(...).proportion_ci(method="wilson")`, but n may be an effective
    number. Intervals of results are those of `share_interval`. Raises ValueError for n <= 0 or a
    total outside 0..n.
    """
    if n <= 0 or not -1e-9 <= total <= n + 1e-9:
        raise ValueError(f"a share needs n > 0 and 0 <= total <= n, found total={total}, n={n}")
    z, p = NormalDist().inv_cdf(0.5 + level / 2), total / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(max(0.0, p * (1 - p) / n + z * z / (4 * n * n)))
    low = 0.0 if total <= 0 else max(0.0, centre - half)
    return low, (1.0 if total >= n else min(1.0, centre + half))


def share_interval(
    values: ArrayLike,
    clusters: Clusters | None = None,
    level: float = LEVEL,
    centre: ArrayLike | None = None,
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
    effective = _effective_units(sums, sizes, mean, float(np.square(off).sum()), level)
    low, high = wilson(mean * effective, effective, level)
    return Estimate(mean, min(low, mean), max(high, mean), len(data), len(sizes))


def mean_of_shares(strata: Sequence[Stratum], level: float = LEVEL) -> Estimate:
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
    whole = _common_codes(strata)
    count = 1 + max(int(codes.max()) for codes in whole)
    together = _linked(whole, count)
    moved, alike = np.zeros((2, count)), np.zeros((2, len(strata)))
    value = 0.0
    for stratum, codes in zip(strata, whole, strict=True):
        places, own = np.unique(codes, return_inverse=True)
        share = share_interval(stratum.values, own, level, stratum.centre)
        reach = stratum.weight * np.array([share.value - share.low, share.high - share.value])
        centre = share.value if stratum.centre is None else stratum.centre
        off, _ = cluster_sums(stratum.values - centre, own)
        length = sqrt(float(np.square(off).sum()))
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


def _effective_units(
    sums: Floats, sizes: Floats, mean: float, squares: float, level: float
) -> float:
    """How many units that stand alone tell as much about the mean.

    `sums` are those of the clusters, and `squares` the sum of the squares, of what the values lie
    off their centre.
    """
    n = float(sizes.sum())
    fewest = n * n / float(np.square(sizes).sum())
    off = np.square(sums)
    room, total = n * n * mean * (1 - mean), float(off.sum())
    if total < 1e-12 or room / squares < fewest + 1e-9:
        return fewest
    from scipy.special import stdtrit

    uneven = float(np.square(off).sum()) - total * total / len(sizes)
    freedom = min(fewest - 1, 2 * total * total / max(uneven, 1e-12 * total * total))
    quantiles = NormalDist().inv_cdf(0.5 + level / 2) / float(
        stdtrit(max(1.0, freedom), 0.5 + level / 2)
    )
    variance = float((off / np.square(1 - sizes / n)).sum())
    return max(fewest, min(room / squares, room / variance * quantiles**2))


def _common_codes(strata: Sequence[Stratum]) -> list[NDArray[np.int64]]:
    """The number of each value's cluster, the same in all strata."""
    known: dict[object, int] = {}
    whole = []
    for number, stratum in enumerate(strata):
        alone = [(number, unit) for unit in range(len(stratum.values))]
        names = alone if stratum.clusters is None else stratum.clusters
        whole.append(np.array([known.setdefault(name, len(known)) for name in names]))
    return whole


def _linked(whole: Sequence[NDArray[np.int64]], count: int) -> NDArray[np.int64]:
    """For each cluster the number of a set of strata: those that share clusters, directly or by
    others, are in one."""
    sets, owners = np.arange(len(whole)), np.full(count, -1)
    for number, codes in enumerate(whole):
        met = owners[codes]
        sets[np.isin(sets, sets[met[met >= 0]])] = number
        owners[codes] = number
    return np.asarray(sets[owners])
