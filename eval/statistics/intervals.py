"""Confidence intervals over clusters: samples that share a picture, a pair or a group.

The interval of a share has a closed form, Wilson's with an effective number of units
(`share_interval`); that of a measured number uses Student's t (`mean_interval`); all others use a
bootstrap of whole clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, isfinite, nan, sqrt
from statistics import NormalDist, fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLE_COUNT = 10_000
MAX_CLUSTER_KINDS, FEW_RESAMPLES = (
    500,
    1_000,
)  # with more kinds of clusters, fewer resamples are drawn
CONFIDENCE_LEVEL = 0.95
PRIOR_CLUSTER_COUNT = 12  # clusters of equal values added in the estimate of a design effect
Z = NormalDist().inv_cdf(0.5 + CONFIDENCE_LEVEL / 2)

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Clusters = Sequence[Hashable] | Codes
"""The name of each value's cluster, or its number as returned by `cluster_codes`."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, from `n` values in `clusters` clusters.

    For a difference, `p` is two-sided, from the test named in `test`. For two contestants on the
    same units, `better` and `worse` count units, and `detectable` is the smallest difference that
    the test detects with 80 % power. Fields that were not computed are NaN, 0 or empty.
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
        """Return whether all fields are equal; NaN equals NaN."""
        if not isinstance(other, Estimate):
            return NotImplemented
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(one == two or (one != one and two != two) for one, two in pairs)


def _number_levels(values: NDArray[Any]) -> Codes:
    """Return the index of each value among the sorted distinct values, like the inverse of
    `np.unique` but several times as fast."""
    if values.dtype.kind in "iu" and len(values) and values.min() >= 0:
        count = int(values.max()) + 1
        if count <= 8 * len(values):
            occurs = np.zeros(count, bool)
            occurs[values] = True
            places: Codes = np.cumsum(occurs) - 1
            return np.asarray(places[values])
    return np.searchsorted(np.unique(values), values)


def cluster_codes(clusters: Clusters | None, n: int) -> Codes:
    """Number the clusters 0, 1, 2 ... and return the cluster number of each of n values; if
    `clusters` is None, each value is its own cluster.

    Raises ValueError if the numbers of clusters and values differ, and without values.
    """
    if n < 1 or (clusters is not None and len(clusters) != n):
        given = "" if clusters is None else f" and {len(clusters)} clusters"
        raise ValueError(
            f"an interval needs values, each with its cluster; found {n} values{given}"
        )
    if isinstance(clusters, np.ndarray):
        return _number_levels(clusters)
    if clusters is None or len(distinct := dict.fromkeys(clusters)) == n:
        return np.arange(n)
    places = dict(zip(distinct, range(n), strict=False))
    return np.fromiter(map(places.__getitem__, clusters), np.int64, n)


def square_sum(values: Floats) -> float:
    """Return the sum of the squares of all values."""
    return float(np.square(values).sum())


def cluster_sums(values: Floats, clusters: Clusters | None) -> tuple[Floats, Floats]:
    """Return the sum of the values of each cluster, along the first axis, and the cluster sizes.

    Sums are rounded to 12 digits, so that equal sums compare equal whatever the order of addition.
    Raises ValueError as `cluster_codes` does.
    """
    codes = cluster_codes(clusters, len(values))
    columns = values.astype(float).reshape(len(values), -1).T
    sums: Floats = np.column_stack([np.bincount(codes, column) for column in columns])
    return sums.reshape(-1, *values.shape[1:]).round(12), np.bincount(codes).astype(float)


def resampled_means(
    sums: Floats, sizes: Floats, weights: Floats | None = None, *, resamples: int = RESAMPLE_COUNT
) -> Floats:
    """Return the means of `resamples` samples of as many clusters, drawn with replacement, with one
    column for each of `sums`.

    `weights`, whole or half numbers, state how often each cluster counts. Clusters with equal sums
    and sizes are counted together, so that a sample is one draw from a multinomial: right and wrong
    answers give few kinds of clusters. With more than 500 kinds, at most 1,000 resamples are drawn.
    """
    columns = np.column_stack([sums.reshape(len(sizes), -1), sizes])
    kind = np.zeros(len(sizes), np.int64)
    for column in columns.T:  # sorting whole rows is many times slower
        code = _number_levels(column)
        kind = _number_levels(kind * (int(code.max()) + 1) + code)
    kinds, counts = np.empty((int(kind.max()) + 1, columns.shape[1])), np.bincount(kind, weights)
    kinds[kind] = columns
    random, drawn = np.random.default_rng(0), round(counts.sum())
    if len(kinds) <= MAX_CLUSTER_KINDS:
        totals = random.multinomial(drawn, counts / counts.sum(), size=resamples) @ kinds
    else:
        # a weight of one half gives one row
        rows = np.repeat(kinds, np.round(2 * counts).astype(int), axis=0)
        picks = (random.integers(0, len(rows), drawn) for _ in range(min(resamples, FEW_RESAMPLES)))
        totals = np.array([rows.take(pick, axis=0).sum(axis=0) for pick in picks])
    return totals[:, :-1] / totals[:, -1:]


def student_quantile(freedom: float) -> float:
    """Return Student's quantile for a 95 % interval with this many degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + CONFIDENCE_LEVEL / 2))


def percentile_interval(means: Floats, clusters: int) -> tuple[float, float]:
    """Return percentiles of resampled means, widened for few clusters (Hesterberg 2015, "expanded
    percentile interval").

    For m clusters the plain percentiles are too narrow by the factor sqrt((m - 1) / m), and because
    they match normal instead of Student's quantiles.
    """
    from scipy.special import ndtr

    reach = sqrt(clusters / (clusters - 1)) * student_quantile(clusters - 1)
    tail = float(ndtr(-reach))
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def bootstrap_statistic(
    columns: Floats, clusters: Clusters | None, statistic: Callable[[Floats], Floats], least: float
) -> Estimate:
    """Compute a statistic from the means of columns (n values, columns), with its cluster bootstrap
    interval. The statistic lies between `least` and 1.

    `statistic` returns a number for each row of means. With a single cluster, the interval is the
    whole range of the statistic.
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
    resamples: int = RESAMPLE_COUNT,
    strata: Clusters | None = None,
) -> Estimate:
    """Compute the mean of values in `floor`..1 with its deterministic cluster bootstrap interval.

    Before resampling, half a value at `floor`, half a value at 1 and one value in the middle are
    added, each as its own cluster: otherwise equal values would have an interval of zero width, and
    few different values one that is too narrow. For paired right or wrong answers this is half an
    item in each cell of their table (Agresti and Min 2005). If clusters hold several values, each
    added value counts as many of them as `_estimate_design_effect` returns. If all values are
    equal, the interval includes the case that some clusters lie at a limit: the share that Wilson's
    upper limit allows after zero events, 7.4 points after 48 equal pairs. `strata` names the task
    of each value: values vary around the mean of their task, so that tasks with different means do
    not widen the interval. The mean is that of the given values alone, which may lie beyond the
    limits. Raises ValueError without values.
    """
    data = np.asarray(values, float)
    mean = fsum(data.tolist()) / len(data)
    varying = data if strata is None else _center_strata(data, mean, clusters, strata)
    sums, sizes = cluster_sums(varying, clusters)
    weight = _estimate_design_effect(varying - mean, sums - sizes * mean, sizes)
    # graded values would make many kinds
    sums = np.round(sums, 2) if len(sums) > MAX_CLUSTER_KINDS else sums
    shift = mean - fsum(sums.tolist()) / len(data)
    means = resampled_means(
        np.append(sums, weight * np.array([floor, (floor + 1) / 2, 1.0])),
        np.append(sizes, np.full(3, weight)),
        np.append(np.ones(len(sizes)), [0.5, 1.0, 0.5]),
        resamples=resamples,
    )
    low, high = percentile_interval(means[:, 0] + shift, len(sizes) + 2)
    if float(np.ptp(varying)) < 1e-12:
        unseen = Z * Z / (len(sizes) + Z * Z)  # Wilson's upper limit after zero events
        low = min(low, mean - unseen * (mean - floor))
        high = max(high, mean + unseen * (1.0 - mean))
    # rounded sums may slightly exceed the limits
    low = max(min(floor, float(data.min())), min(low, mean))
    high = min(max(1.0, float(data.max())), max(high, mean))
    return Estimate(mean, low, high, len(data), len(sizes))


def _estimate_design_effect(off: Floats, sums: Floats, sizes: Floats) -> float:
    """Estimate the design effect: how many values of a cluster are worth one independent value.

    `off` holds the deviations of the values from the mean, `sums` the sums of these deviations in
    each cluster. The design effect is 1 if each value is its own cluster. Its estimate has as many
    degrees of freedom as the fourth moments of the sums leave, plus `PRIOR_CLUSTER_COUNT` for
    clusters of equal values. Without these, the estimate and the interval would both be too small
    if few clusters differ and the most variable ones happen to be missing.
    """
    whole = square_sum(sizes) / float(sizes.sum())
    squares = square_sum(off)
    if whole < 1 + 1e-9 or squares < 1e-12:
        return whole
    effect = min(whole, max(1.0, square_sum(sums) / squares))
    freedom = _degrees_of_freedom(np.square(sums), len(sizes) - 1.0)
    return float((freedom * effect + PRIOR_CLUSTER_COUNT * whole) / (freedom + PRIOR_CLUSTER_COUNT))


def _degrees_of_freedom(squares: Floats, most: float) -> float:
    """Estimate the degrees of freedom of a variance, the sum of `squares`, from the spread of the
    squares; at most `most`."""
    total = float(squares.sum())
    if total < 1e-12:
        return most
    uneven = square_sum(squares) - total * total / len(squares)
    return min(most, 2 * total * total / max(uneven, 1e-12 * total * total))


def _center_strata(
    data: Floats, mean: float, clusters: Clusters | None, strata: Clusters
) -> Floats:
    """Shift the values so that each stratum has the overall mean.

    Deviations are scaled up to correct for the estimated mean of their stratum. The values of a
    stratum with a single cluster carry no information on its spread and stay as they are.
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
    """The values in 0..1 of one task, the names of their clusters (None: each value is its own
    cluster), the weight of the task, and the centres of the deviations.

    A cluster name means the same cluster in all strata: a picture that two tasks ask about, or a
    question asked twice. `centre` is the centre of each value's deviation, if it is not their mean:
    for variants of a task, the variant's own mean.
    """

    values: Floats
    clusters: Clusters | None = None
    weight: float = 1.0
    centre: Floats | None = None


def wilson(total: float, n: float) -> tuple[float, float]:
    """Compute Wilson's score interval (Wilson 1927) for a share of `total` out of `n` independent
    units, each in 0..1.

    The result equals that of scipy's `binomtest(...).proportion_ci(method="wilson")`, except that n
    may be an effective number. Results use `share_interval` instead. Raises ValueError for n <= 0
    or a total outside 0..n.
    """
    if n <= 0 or not -1e-9 <= total <= n + 1e-9:
        raise ValueError(f"a share needs n > 0 and 0 <= total <= n, found total={total}, n={n}")
    p, square = total / n, Z * Z / n
    centre = (p + Z * Z / (2 * n)) / (1 + square)
    half = Z / (1 + square) * sqrt(max(0.0, p * (1 - p) / n + Z * Z / (4 * n * n)))
    low = 0.0 if total <= 0 else max(0.0, centre - half)
    return low, (1.0 if total >= n else min(1.0, centre + half))


def share_interval(
    values: ArrayLike, clusters: Clusters | None = None, centre: ArrayLike | None = None
) -> Estimate:
    """Compute the mean of values in 0..1 with Wilson's interval for the effective number of units.

    The effective number is p (1 - p) over the variance of the mean. The variance is estimated from
    the cluster sums (a ratio estimate, correcting each square for the cluster's own weight as by a
    jackknife) and inflated by Student's quantile for few clusters (Korn and Graubard 1998; Franco
    et al. 2019). Its degrees of freedom follow from the fourth moments: they are few if two
    clusters hold all errors. The effective number lies between the number of clusters, as
    if all units of a cluster were equal (for unequal sizes (sum n)^2 / sum n^2), and the number of
    units, as if all were independent. So the interval is Wilson's own if each unit is right or
    wrong and its own cluster, and has a positive width if all values are equal. Deviations are
    measured from `centre`, by default the mean. Raises ValueError without values and for values
    outside 0..1.
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
    """Compute the weighted mean of the means of strata, with an interval from the limits and
    correlations of the strata (MOVER).

    With means p_i, limits (l_i, u_i), weights w_i and correlations r_ij the lower limit is mean -
    sqrt(sum_ij w_i w_j r_ij (p_i - l_i) (p_j - l_j)), and the upper accordingly (Zou 2007; Zou and
    Donner 2008). The r_ij are the correlations of the sums of shared clusters: 0 if no cluster is
    shared, and 1 if some are but the values of one stratum are all equal. For a single stratum, the
    result is that of `share_interval`. Raises ValueError in the same cases as `share_interval`, and
    without strata.
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
    """Return the number of independent units that give the same information on the mean.

    `sums` are the cluster sums of the deviations of the values from their centre, and `squares` is
    the sum of the squared deviations.
    """
    n = float(sizes.sum())
    fewest = n * n / square_sum(sizes)
    off = np.square(sums)
    room, total = n * n * mean * (1 - mean), float(off.sum())
    if total < 1e-12 or room / squares < fewest + 1e-9:
        return fewest
    freedom = _degrees_of_freedom(off, fewest - 1)
    quantiles = Z / student_quantile(max(1.0, freedom))
    variance = float((off / np.square(1 - sizes / n)).sum())
    return max(fewest, min(room / squares, room / variance * quantiles**2))


def _link_clusters(strata: Sequence[Stratum]) -> tuple[list[Codes], Codes]:
    """Number the clusters across all strata, and find the sets of strata that share clusters,
    directly or through others.

    Returns the cluster numbers of the values in each stratum, and the number of each cluster's set.
    """
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


MAX_UNSCALED_SIZE = 1e100
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

    The interval stays within 0..1 if all values do.
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


def find_scale(values: Sequence[float]) -> float:
    """Return the number by which values must be divided before they are summed or squared: 1, or
    the largest absolute value if that is very large."""
    largest = max(map(abs, values), default=0.0)
    return float(largest) if largest > MAX_UNSCALED_SIZE else 1.0
