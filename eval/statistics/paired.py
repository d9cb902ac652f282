"""Contestants on the same units: the difference of two, exact tests, corrections for many, the
matrix of all their values, and what so many units could have shown.

Without scipy.stats, which takes a second to load."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, compress, product
from math import sqrt
from statistics import NormalDist
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looktwice.eval.statistics.intervals import (
    LEVEL,
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

MCNEMAR, FLIP = "exact McNemar", "sign flips of clusters"
ALPHA, POWER = 1 - LEVEL, 0.8
NORMAL = 1000  # of more differences the exact test is as good as the normal one

Line = TypeVar("Line")
Arm = TypeVar("Arm", bound=Hashable)
Unit = TypeVar("Unit", bound=Hashable)
Part = TypeVar("Part", bound=Hashable)


@lru_cache(maxsize=1024)
def mcnemar_p(better: int, worse: int) -> float:
    """The exact two-sided McNemar test: how often a coin falls at least as unevenly, to either
    side.

    It is a test of the mean difference only where each sample is right or wrong: `compare_paired`
    flips signs for graded values. In whole numbers, so that a p such as 29/128 is rounded alike
    everywhere.
    """
    n, tail, ways = better + worse, 0, 1
    if n > 10_000:
        from scipy.special import betainc

        fewer = min(better, worse)
        return min(1.0, float(2 * betainc(n - fewer, fewer + 1, 0.5)))
    for k in range(min(better, worse) + 1):
        tail, ways = tail + ways, ways * (n - k) // (k + 1)
    return min(1.0, float(2 * tail / 2**n))


def mean_difference(
    gaps: ArrayLike, clusters: Clusters | None = None, strata: Clusters | None = None
) -> Estimate:
    """The mean of differences that have no two sides, such as contrasts of a sweep; else take
    `compare_paired`.

    The interval is that of every paired difference, a bootstrap over clusters; p is that of the
    two-sided sign-flip test, which flips whole clusters. `strata` names the task of each
    difference, as for `bootstrap_mean`. Differences may lie beyond -1..1, as interactions do.
    Raises ValueError for none.
    """
    data = np.asarray(gaps, float)
    sums, _ = cluster_sums(data, clusters)
    mean = bootstrap_mean(data, clusters, floor=-1.0, strata=strata)
    return replace(mean, p=sign_flip_p(sums.tolist()))


def sign_flip_p(gaps: Sequence[float]) -> float:
    """How often the sum of the differences is as far from 0 if each sign is a coin's (Fisher's
    randomisation test).

    Over all signs of up to 13 differences that are not 0, else over 10000 drawn ones, always the
    same; of more than 10000 differences the sum is normal. Signs fall on the sizes of the
    differences in their order, so that p depends neither on the order of the differences nor on
    which side is subtracted.
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
    """Holm's step-down correction (Holm 1979) of a family of p-values, in their order."""
    order = np.argsort(ps)
    stepped = np.maximum.accumulate(np.asarray(ps, float)[order] * np.arange(len(ps), 0, -1))
    return _put_back(stepped, order)


def benjamini_hochberg(ps: Sequence[float] | Floats) -> list[float]:
    """The step-up correction of Benjamini and Hochberg (1995) of a family of p-values, in their
    order.

    Calling every result at or below q a find keeps the expected share of false finds among them at
    q, where the tests are independent or positively dependent.
    """
    order = np.argsort(ps)[::-1]
    ranks = np.arange(len(ps), 0, -1)
    stepped = np.minimum.accumulate(np.asarray(ps, float)[order] * len(ps) / ranks)
    return _put_back(stepped, order)


def _put_back(stepped: Floats, order: Codes) -> list[float]:
    return list(map(float, np.minimum(stepped, 1.0)[np.argsort(order)]))


def correct(
    lines: Sequence[Line], p: Callable[[Line], float | None], family: Callable[[Line], Hashable]
) -> list[Line]:
    """The lines, dataclasses with `p_holm` and `p_bh`, with both corrections of their p over those
    of their family.

    A line whose p is None stays as it is.
    """
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
    """How likely a chi-squared variable of so many degrees of freedom lies above a value."""
    from scipy.special import chdtrc

    return float(chdtrc(degrees, max(value, 0.0)))


def kruskal(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Whether values depend on their group (Kruskal-Wallis, App. K): the effect size H/(n - 1) in
    0..1, and p.

    Groups without values are left out; where all values are the same there is no effect and p is 1.
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
    """The mean of `values - others`, each in 0..1: two contestants on the same units, in one order.

    `clusters` names the cluster of each unit: units that share a picture, a pair or a group are not
    independent. `strata` names the task of each unit: in the interval, the cluster bootstrap's,
    differences vary around the mean of their task. Where each unit is its own cluster and right or
    wrong the test is McNemar's exact one; else Fisher's randomisation test, which flips the signs
    of whole clusters. Raises ValueError for no units and unequal lengths.
    """
    mine, theirs = np.asarray(values, float), np.asarray(others, float)
    if not len(mine) or len(mine) != len(theirs):
        raise ValueError(
            f"a paired test needs the same samples on both sides, found {len(mine)} and"
            f" {len(theirs)}"
        )
    gaps = mine - theirs
    better, worse = (int(np.count_nonzero(sign * gaps > 1e-9)) for sign in (1, -1))
    mean = bootstrap_mean(gaps, clusters, floor=-1.0, strata=strata)
    sums, _ = cluster_sums(gaps, clusters)
    exact = mean.clusters == mean.n and set(np.unique([mine, theirs])) <= {0.0, 1.0}
    return replace(
        mean,
        p=mcnemar_p(better, worse) if exact else sign_flip_p(sums.tolist()),
        test=MCNEMAR if exact else FLIP,
        better=better,
        worse=worse,
        detectable=minimum_detectable(sums * mean.clusters / mean.n),
    )


@dataclass(frozen=True, eq=False)
class Values(Generic[Arm, Unit]):
    """What each arm is worth on each unit: `value` is (arms, units) in 0..1, and NaN where an arm
    failed, was not asked, or has no key.

    `units` are samples, or pairs (task, sample) where several tasks have samples of one name.
    `clusters` is a number for each of them, the same for units that share a picture or a group.
    `strata` is a number for the task of each of them, None for units of one task.
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
    ) -> Values[Arm, Unit]:
        """The matrix of the values by unit of each arm; units stand in the order of the first arm
        that has them.

        A unit that `clusters` does not name is a cluster of its own. `task` gives the task of a
        unit, where units of several tasks are pooled.
        """
        units = tuple(dict.fromkeys(chain(*arms.values())))
        value = np.array([[values.get(unit, np.nan) for unit in units] for values in arms.values()])
        names = [clusters.get(unit, (unit,)) for unit in units]
        codes = cluster_codes(names, len(units)) if units else np.zeros(0, np.int64)
        strata = cluster_codes([*map(task, units)], len(units)) if task and units else None
        return cls(value.reshape(len(arms), len(units)), tuple(arms), units, codes, strata)

    def __getitem__(self, arm: Arm) -> Floats:
        """The values of an arm, (units,)."""
        return np.asarray(self.value[self.arms.index(arm)])

    def has(self, *arms: Arm) -> NDArray[np.bool_]:
        """Which units each of these arms has a value on; without arms, each arm at all."""
        rows = [self[arm] for arm in arms] if arms else self.value
        return np.asarray(~np.isnan(rows).any(axis=0))

    def where(self, wanted: NDArray[np.bool_]) -> Values[Arm, Unit]:
        """The same of some units alone; `wanted` is (units,)."""
        units = tuple(compress(self.units, wanted))
        return replace(
            self,
            value=self.value[:, wanted],
            units=units,
            clusters=self.clusters[wanted],
            strata=None if self.strata is None else self.strata[wanted],
        )

    def by(self, part: Callable[[Unit], Part]) -> dict[Part, Values[Arm, Unit]]:
        """The matrix in parts, by what `part` says of a unit, such as its task."""
        names = [*map(part, self.units)]
        parts = dict.fromkeys(names)
        return {part: self.where(np.array([name == part for name in names])) for part in parts}

    def mean(self, arm: Arm) -> Estimate | None:
        """The mean of an arm with its interval (`share_interval`); None without a value."""
        own = self.where(self.has(arm))
        return share_interval(own[arm], own.clusters) if own.units else None

    def pair(self, arm: Arm, other: Arm) -> Estimate | None:
        """An arm less another on the units that both have (`compare_paired`); None where there is
        none."""
        both = self.where(self.has(arm, other))
        if not both.units:
            return None
        return compare_paired(both[arm], both[other], both.clusters, both.strata)

    def left_out(self, arm: Arm, other: Arm) -> int:
        """On how many units one of the two has a value and the other has none."""
        return int((self.has(arm) ^ self.has(other)).sum())


def minimum_detectable(gaps: ArrayLike) -> float:
    """The smallest mean difference that the exact test of n independent differences, spread as
    these are, shows.

    For right or wrong answers it is McNemar's: how many units differ is binomial with the share
    that does here, and of these the larger side is; where all of them to one side are too few, more
    units would have to differ. Other differences count as so many equal ones as their second and
    fourth moments leave. Where more than 1,000 differ the test is as good as normal, and it is the
    solution for d of n = (z_a s + z_b sqrt(s^2 - d^2))^2 / d^2 with the mean square s^2 (Connor
    1987). At most 1.
    """
    squares = np.square(np.asarray(gaps, float))
    n, total = len(squares), float(squares.sum())
    differing = total * total / square_sum(squares) if total > 0 else 0.0
    size = sqrt(total / differing) if total > 0 else 1.0
    za, zb = NormalDist().inv_cdf(1 - ALPHA / 2), NormalDist().inv_cdf(POWER)
    root = n * za**2 - (n + zb**2) * (za**2 - zb**2)
    normal = sqrt(differing / n) * (sqrt(n) * za + sqrt(max(0.0, root))) / (n + zb**2)
    if differing > NORMAL:
        return min(1.0, size * normal)
    low, high = 0.0, min(1.0, 2 * normal + 16 / n)
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        enough = _exact_power(n, differing / n, middle) >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return min(1.0, size * high)


def _exact_power(n: int, differing: float, difference: float) -> float:
    """How often McNemar's exact test of n pairs finds a difference, where so many differ, or more
    if it needs more.

    Of the numbers of pairs that may differ some fifty within five standard deviations are looked
    at.
    """
    from scipy.special import bdtr, gammaln, xlog1py, xlogy

    share = max(differing, difference)
    reach = 5 * sqrt(n * share * (1 - share)) + 1
    first, last = max(0, int(n * share - reach)), min(n, int(n * share + reach) + 1)
    counts = np.arange(first, last + 1, 1 + (last - first) // 50)
    ways = -gammaln(counts + 1) - gammaln(n - counts + 1)
    likely = ways + xlogy(counts, share) + xlog1py(n - counts, -share)
    weights = np.exp(likely - likely.max())
    most = _most_on_the_smaller_side(1 << last.bit_length())[counts]
    sides = (1 - difference / share) / 2, (1 + difference / share) / 2
    power = np.where(most < 0, 0.0, sum(bdtr(np.maximum(most, 0), counts, side) for side in sides))
    return float(weights @ power / weights.sum())


@lru_cache(maxsize=64)
def _most_on_the_smaller_side(n: int) -> Codes:
    """Of 0 to n pairs that differ, the most on the smaller side with which the exact test finds
    something; else -1."""
    from scipy.special import bdtr

    largest, most = np.full(n + 1, -1), -1
    for count in range(n + 1):
        while bdtr(most + 1, count, 0.5) <= ALPHA / 2:
            most += 1
        largest[count] = most
    return largest


Cell = tuple[str, ...]
"""A combination of a sweep: the level of every factor."""


def contrast(cells: Sequence[Cell | None], changes: Mapping[int, tuple[str, str]]) -> Floats:
    """The weight of each cell in what changing these factors together does beyond what each of them
    does alone; 0 for all where no combination has every cell.

    `changes` maps the number of a factor to (level, against). For one factor the weighted sum is
    the value at the level less that against it, the main effect; for two it is the difference of
    two such differences, the interaction, and so on. It is the mean over the combinations of the
    other factors that have every cell of the contrast. In a complete sweep of right or wrong
    answers its mean over units is the coefficient of a saturated linear model with sums over the
    other factors.
    """
    places = {cell: place for place, cell in enumerate(cells) if cell is not None}
    rests = {tuple("" if i in changes else level for i, level in enumerate(c)) for c in places}
    weights, squares = np.zeros(len(cells)), 0
    for rest in rests:
        signs = {}
        for sides in product((0, 1), repeat=len(changes)):
            cell = [*rest]
            for side, (number, levels) in zip(sides, changes.items(), strict=True):
                cell[number] = levels[side]
            signs[tuple(cell)] = (-1) ** sum(sides)
        if signs.keys() <= places.keys():
            weights[[places[cell] for cell in signs]] += [*signs.values()]
            squares += 1
    return weights / max(1, squares)
