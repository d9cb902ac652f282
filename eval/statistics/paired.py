"""Comparisons of contestants on the same units: differences between two contestants, exact tests,
corrections for multiple tests, the matrix of all values, and the smallest detectable difference.

Does not import scipy.stats, which takes a second to load.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, compress
from math import sqrt
from operator import eq
from statistics import NormalDist
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looktwice.eval.statistics.intervals import (
    CONFIDENCE_LEVEL,
    Clusters,
    Codes,
    Estimate,
    Floats,
    bootstrap_mean,
    cluster_codes,
    cluster_sums,
    share_interval,
    square_sum,
)

MCNEMAR_TEST, SIGN_FLIP_TEST = "exact McNemar", "sign flips of clusters"
ALPHA, POWER = 1 - CONFIDENCE_LEVEL, 0.8
MIN_NORMAL_COUNT = 1000  # with more differences, the normal approximation is accurate

Line = TypeVar("Line")
Arm = TypeVar("Arm", bound=Hashable)
Unit = TypeVar("Unit", bound=Hashable)
Part = TypeVar("Part", bound=Hashable)


@lru_cache(maxsize=1024)
def mcnemar_p(better: int, worse: int) -> float:
    """Compute the exact two-sided McNemar test: the probability that `better + worse` flips of a
    fair coin split at least as unevenly, in either direction.

    It tests the mean difference only if each sample is right or wrong: for graded values,
    `compare_paired` flips signs. The computation uses integers, so that a p-value such as 29/128 is
    rounded in the same way on every machine.
    """
    n, fewer = better + worse, min(better, worse)
    if n > 10_000:
        from scipy.special import betainc

        return min(1.0, float(2 * betainc(n - fewer, fewer + 1, 0.5)))
    tail, between, whole = range(fewer + 1), range(fewer + 1, n - fewer), 1 << n
    if len(between) < len(tail):  # summing the rest is quicker
        return min(1.0, (whole - _sum_binomials(n, between)) / whole)
    return min(1.0, 2 * _sum_binomials(n, tail) / whole)


def _sum_binomials(n: int, places: range) -> int:
    """Return the sum of the binomial coefficients of n at consecutive places."""
    total, ways = 0, math.comb(n, places.start)
    for place in places:
        total, ways = total + ways, ways * (n - place) // (place + 1)
    return total


def sign_flip_p(gaps: Sequence[float]) -> float:
    """Compute the probability that the sum of the differences is at least as far from 0 under
    random signs (Fisher's randomisation test).

    For up to 13 non-zero differences, all combinations of signs are enumerated; for more, 10000
    combinations are drawn, always the same ones; for more than 10000 differences, the sum is
    assumed to be normal. Signs are assigned to the sorted sizes, so that p depends neither on the
    order of the differences nor on which side is subtracted.
    """
    sizes = np.sort(np.abs(gaps))
    moved = sizes[sizes > 1e-9]
    far, count, random = abs(math.fsum(gaps)) - 1e-9, len(moved), np.random.default_rng(0)
    if count <= 13:
        signs = 1 - 2 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)
        return float(np.mean(np.abs(signs @ moved) >= far))
    if count > 10_000:
        return math.erfc(max(far, 0.0) / math.sqrt(2 * float(moved @ moved)))
    drawn = (1 - 2 * random.integers(0, 2, (500, count), dtype=np.int8) for _ in range(20))
    return float(
        (1 + sum(np.count_nonzero(np.abs(signs @ moved) >= far) for signs in drawn)) / 10001
    )


def holm(ps: Sequence[float] | Floats) -> list[float]:
    """Apply Holm's step-down correction (Holm 1979) to a family of p-values, in their order."""
    order = np.argsort(ps)
    stepped = np.maximum.accumulate(np.asarray(ps, float)[order] * np.arange(len(ps), 0, -1))
    return _restore_order(stepped, order)


def benjamini_hochberg(ps: Sequence[float] | Floats) -> list[float]:
    """Apply the step-up correction of Benjamini and Hochberg (1995) to a family of p-values, in
    their order.

    Calling every result at or below q a discovery keeps the expected share of false discoveries at
    q, if the tests are independent or positively dependent.
    """
    order = np.argsort(ps)[::-1]
    ranks = np.arange(len(ps), 0, -1)
    stepped = np.minimum.accumulate(np.asarray(ps, float)[order] * len(ps) / ranks)
    return _restore_order(stepped, order)


def _restore_order(stepped: Floats, order: Codes) -> list[float]:
    return list(map(float, np.minimum(stepped, 1.0)[np.argsort(order)]))


def correct(
    lines: Sequence[Line], p: Callable[[Line], float | None], family: Callable[[Line], Hashable]
) -> list[Line]:
    """Return the lines, which are dataclasses, with `p_holm` and `p_bh` set by correcting p within
    each family; a line whose p is None stays unchanged."""
    families = defaultdict[Hashable, dict[int, float]](dict)
    for place, line in enumerate(lines):
        if (tested := p(line)) is not None:
            families[family(line)][place] = tested
    corrected: list[Any] = list(lines)
    for places in families.values():
        ps = [*places.values()]
        for place, strict, mild in zip(places, holm(ps), benjamini_hochberg(ps), strict=True):
            corrected[place] = replace(corrected[place], p_holm=strict, p_bh=mild)
    return corrected


def chi_squared_tail(degrees: int, value: float) -> float:
    """Return the probability that a chi-squared variable with this many degrees of freedom exceeds
    a value."""
    from scipy.special import chdtrc

    return float(chdtrc(degrees, max(value, 0.0)))


def kruskal(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Test whether values depend on their group (Kruskal-Wallis); return the effect size
    H/(n - 1) in 0..1, and p.

    Groups without values are left out; if all values are equal, the effect is 0 and p is 1.
    """
    filled = list(filter(len, groups))
    sizes = np.array(list(map(len, filled)))
    levels, place, times = np.unique(
        list(chain.from_iterable(filled)), return_inverse=True, return_counts=True
    )
    n = len(place)
    if len(filled) < 2 or len(levels) < 2:
        return 0.0, 1.0
    ranks = (np.cumsum(times) - (times - 1) / 2)[place]
    sums = np.add.reduceat(ranks, np.cumsum(sizes) - sizes)
    ties = 1 - float((times.astype(float) ** 3 - times).sum()) / (n**3 - n)
    between = float((sums**2 / sizes).sum())
    h = max(0.0, (12 / (n * (n + 1)) * between - 3 * (n + 1)) / ties)
    return min(1.0, h / (n - 1)), chi_squared_tail(len(filled) - 1, h)


def compare_paired(
    values: ArrayLike,
    others: ArrayLike,
    clusters: Clusters | None = None,
    strata: Clusters | None = None,
) -> Estimate:
    """Compute the mean of `values - others`, each in 0..1, for two contestants on the same units in
    the same order.

    `clusters` names the cluster of each unit: units that share a picture, a pair or a group are not
    independent. `strata` names the task of each unit: in the cluster bootstrap interval,
    differences vary around the mean of their task. If each unit is its own cluster and right or
    wrong, the test is McNemar's exact one; else Fisher's randomisation test, which flips the signs
    of whole clusters. Raises ValueError without units and for unequal lengths.
    """
    mine, theirs = np.asarray(values, float), np.asarray(others, float)
    if not len(mine) or len(mine) != len(theirs):
        raise ValueError(
            f"a paired test needs the same samples on both sides, found {len(mine)} and"
            f" {len(theirs)}"
        )
    codes = None if clusters is None else cluster_codes(clusters, len(mine))
    tasks = None if strata is None else cluster_codes(strata, len(mine))
    digest = hashlib.blake2b(digest_size=16)
    for part in (mine, theirs, codes, tasks):
        digest.update(b"none" if part is None else part.tobytes())
    if (known := _COMPARISON_CACHE.get(digest.digest())) is not None:
        return known
    if len(_COMPARISON_CACHE) >= MAX_CACHED_COMPARISONS:
        _COMPARISON_CACHE.clear()
    estimate = _COMPARISON_CACHE[digest.digest()] = _compare_paired(mine, theirs, codes, tasks)
    return estimate


_COMPARISON_CACHE: dict[bytes, Estimate] = {}
"""A cache of comparisons, by the digest of their inputs, because tables and pages repeat the same
comparisons."""
MAX_CACHED_COMPARISONS = 10_000


def _compare_paired(
    mine: Floats, theirs: Floats, clusters: Codes | None, strata: Codes | None
) -> Estimate:
    gaps = mine - theirs
    better, worse = (int(np.count_nonzero(sign * gaps > 1e-9)) for sign in (1, -1))
    mean = bootstrap_mean(gaps, clusters, floor=-1.0, strata=strata)
    sums, _ = cluster_sums(gaps, clusters)
    exact = mean.clusters == mean.n and set(np.unique([mine, theirs])) <= {0.0, 1.0}
    return replace(
        mean,
        p=mcnemar_p(better, worse) if exact else sign_flip_p(sums.tolist()),
        test=MCNEMAR_TEST if exact else SIGN_FLIP_TEST,
        better=better,
        worse=worse,
        detectable=compute_detectable_difference(sums * mean.clusters / mean.n),
    )


@dataclass(frozen=True, eq=False)
class ValueMatrix(Generic[Arm, Unit]):
    """The value of each arm on each unit: `value` is (arms, units) in 0..1, and NaN if an arm
    failed, was not asked, or there is no correct answer.

    `units` are samples, or pairs (task, sample) if several tasks share sample names. `clusters`
    holds a number for each unit, equal for units that share a picture or a group. `strata` holds a
    number for the task of each unit, and is None for units of one task.
    """

    value: Floats
    arms: tuple[Arm, ...]
    units: tuple[Unit, ...]
    clusters: Codes
    strata: Codes | None = None

    @classmethod
    def of(
        cls,
        arms: Mapping[Arm, Mapping[Unit, float]],
        clusters: Mapping[Unit, Hashable],
        task: Callable[[Unit], Hashable] | None = None,
    ) -> ValueMatrix[Arm, Unit]:
        """Build the matrix from the values by unit of each arm, with units in the order in which
        they first appear.

        A unit that is missing in `clusters` is its own cluster. `task` returns the task of a unit,
        if units of several tasks are pooled.
        """
        units = tuple(dict.fromkeys(chain(*arms.values())))
        value = np.array([_order_values(values, units) for values in arms.values()])
        names = [clusters.get(unit, (unit,)) for unit in units]
        codes = cluster_codes(names, len(units)) if units else np.zeros(0, np.int64)
        strata = cluster_codes([*map(task, units)], len(units)) if task and units else None
        return cls(value.reshape(len(arms), len(units)), tuple(arms), units, codes, strata)

    def __getitem__(self, arm: Arm) -> Floats:
        """Return the values of an arm, (units,)."""
        return np.asarray(self.value[self.arms.index(arm)])

    def valid_mask(self, *arms: Arm) -> NDArray[np.bool_]:
        """Return a mask of the units on which these arms (by default all) have a value."""
        rows = [self[arm] for arm in arms] if arms else self.value
        return np.asarray(~np.isnan(rows).any(axis=0))

    def where(self, wanted: NDArray[np.bool_]) -> ValueMatrix[Arm, Unit]:
        """Select the units of a boolean mask, (units,)."""
        units = tuple(compress(self.units, wanted))
        return replace(
            self,
            value=self.value[:, wanted],
            units=units,
            clusters=self.clusters[wanted],
            strata=None if self.strata is None else self.strata[wanted],
        )

    def split_by(self, part: Callable[[Unit], Part]) -> dict[Part, ValueMatrix[Arm, Unit]]:
        """Split the matrix by `part` of each unit, such as its task."""
        names = [*map(part, self.units)]
        parts = dict.fromkeys(names)
        return {part: self.where(np.array([name == part for name in names])) for part in parts}

    def mean(self, arm: Arm) -> Estimate | None:
        """Return an arm's mean with its interval (`share_interval`), or None if the arm has no
        values."""
        own = self.where(self.valid_mask(arm))
        return share_interval(own[arm], own.clusters) if own.units else None

    def compare_arms(self, arm: Arm, other: Arm) -> Estimate | None:
        """Compare two arms on their common units (`compare_paired`); return None without common
        units."""
        both = self.where(self.valid_mask(arm, other))
        if not both.units:
            return None
        return compare_paired(both[arm], both[other], both.clusters, both.strata)

    def count_unpaired(self, arm: Arm, other: Arm) -> int:
        """Count the units on which exactly one of the two arms has a value."""
        return int((self.valid_mask(arm) ^ self.valid_mask(other)).sum())


def _order_values(values: Mapping[Unit, float], units: Sequence[Unit]) -> Sequence[float]:
    """Return the values in the order of the units, NaN for a unit without a value."""
    if len(values) == len(units) and all(map(eq, values, units)):
        return [*values.values()]
    return [values.get(unit, np.nan) for unit in units]


def compute_detectable_difference(gaps: ArrayLike) -> float:
    """Return the smallest mean difference that the exact test detects with 80 % power, for n
    independent differences with the spread of `gaps`.

    For right or wrong answers the test is McNemar's. The number of differing units is binomial with
    the observed share, and so is the larger side among them; if they would be too few even with all
    of them on one side, more units have to differ. Differences of unequal size count as the number
    of equally large ones that matches their second and fourth moments. With more than 1,000
    differing units the normal approximation is used: the solution for d of n = (z_a s + z_b
    sqrt(s^2 - d^2))^2 / d^2 with the mean square s^2 (Connor 1987). At most 1.
    """
    squares = np.square(gaps, dtype=float)
    n, total = len(squares), float(squares.sum())
    differing = min(n, total * total / square_sum(squares)) if total > 0 else 0.0
    size = sqrt(total / differing) if total > 0 else 1.0
    za, zb = NormalDist().inv_cdf(1 - ALPHA / 2), NormalDist().inv_cdf(POWER)
    root = n * za**2 - (n + zb**2) * (za**2 - zb**2)
    normal = sqrt(differing / n) * (sqrt(n) * za + sqrt(max(0.0, root))) / (n + zb**2)
    if differing > MIN_NORMAL_COUNT:
        return min(1.0, size * normal)
    low, high = 0.0, min(1.0, 2 * normal + 16 / n)
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        enough = _exact_power(n, differing / n, middle) >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return min(1.0, size * high)


def _exact_power(n: int, differing: float, difference: float) -> float:
    """Return the power of McNemar's exact test of n pairs for a difference, if the share
    `differing` of pairs differs, or a larger share if the difference requires it.

    The power is averaged over about fifty numbers of differing pairs within five deviations.
    """
    from scipy.special import bdtr, gammaln, xlog1py, xlogy

    share = max(differing, difference)
    reach = 5 * sqrt(n * share * (1 - share)) + 1
    first, last = max(0, int(n * share - reach)), min(n, int(n * share + reach) + 1)
    counts = np.arange(first, last + 1, 1 + (last - first) // 50)
    ways = -gammaln(counts + 1) - gammaln(n - counts + 1)
    likely = ways + xlogy(counts, share) + xlog1py(n - counts, -share)
    weights = np.exp(likely - likely.max())
    most = _largest_minority(1 << last.bit_length())[counts]
    sides = (1 - difference / share) / 2, (1 + difference / share) / 2
    power = np.where(most < 0, 0.0, sum(bdtr(np.maximum(most, 0), counts, side) for side in sides))
    return float(weights @ power / weights.sum())


@lru_cache(maxsize=64)
def _largest_minority(n: int) -> Codes:
    """Return, for 0 to n differing pairs, the largest count on the smaller side that is still
    significant, or -1 if no count is."""
    from scipy.special import bdtr

    largest, most = np.full(n + 1, -1), -1
    for count in range(n + 1):
        while bdtr(most + 1, count, 0.5) <= ALPHA / 2:
            most += 1
        largest[count] = most
    return largest
