"""The statistics of the tables: intervals of shares and of paired differences, the exact paired test, Holm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

import numpy as np

Interval = tuple[float, float]


def wilson(total: float, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval (Wilson 1927) for a share of `total` out of `n`, each in 0..1.

    The same as scipy's `binomtest(...).proportion_ci(method="wilson")`, but `total` may be a sum of graded values or
    of means over draws: it is then conservative, since at a given mean binary values have the largest variance.
    Raises ValueError for n < 1 or a total outside 0..n.
    """
    if n < 1 or not -1e-9 <= total <= n + 1e-9:
        raise ValueError(f"a share needs n >= 1 and 0 <= total <= n, found total={total}, n={n}")
    z, p = NormalDist().inv_cdf(0.5 + level / 2), total / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(max(0.0, p * (1 - p) / n + z * z / (4 * n * n)))
    low = 0.0 if total <= 0 else max(0.0, centre - half)
    return low, (1.0 if total >= n else min(1.0, centre + half))


def stratified_interval(shares: Sequence[tuple[float, int, float]], level: float = 0.95) -> Interval:
    """The interval of a weighted mean of shares from independent strata, given as (total, n, weight).

    With p_i = total_i/n_i, Wilson limits (l_i, u_i) and weights w_i: mean - sqrt(sum w_i^2 (p_i - l_i)^2) and
    mean + sqrt(sum w_i^2 (u_i - p_i)^2) (Zou and Donner 2008, MOVER). For one stratum it is Wilson's interval, and
    it keeps a width where every stratum is all right or all wrong.
    """
    mean = sum(weight * total / n for total, n, weight in shares)
    below = above = 0.0
    for total, n, weight in shares:
        low, high = wilson(total, n, level)
        below += (weight * (total / n - low)) ** 2
        above += (weight * (high - total / n)) ** 2
    return max(0.0, mean - sqrt(below)), min(1.0, mean + sqrt(above))


def paired_difference(values: Sequence[float], others: Sequence[float], level: float = 0.95) -> Interval:
    """The interval of the mean paired difference: Wilson's limits of both means joined with their correlation.

    Newcombe's method 10 (1998) without continuity correction, as Zou and Donner (2008) write it; also for graded
    values, where Wilson's limits are conservative. Lengths are equal and above 0.
    """
    n, mine, theirs = len(values), fmean(values), fmean(others)
    (low, high), (low2, high2) = wilson(sum(values), n, level), wilson(sum(others), n, level)
    r = _pearson(values, others)
    below = (mine - low) ** 2 - 2 * r * (mine - low) * (high2 - theirs) + (high2 - theirs) ** 2
    above = (high - mine) ** 2 - 2 * r * (high - mine) * (theirs - low2) + (theirs - low2) ** 2
    return mine - theirs - sqrt(max(0.0, below)), mine - theirs + sqrt(max(0.0, above))


def _pearson(values: Sequence[float], others: Sequence[float]) -> float:
    mine, theirs = fmean(values), fmean(others)
    joint = sum((a - mine) * (b - theirs) for a, b in zip(values, others, strict=True))
    spread = sqrt(sum((a - mine) ** 2 for a in values) * sum((b - theirs) ** 2 for b in others))
    return joint / spread if spread > 0 else 0.0


@dataclass(frozen=True)
class PairedTest:
    """Two contestants on the same n samples: the mean difference, on how many they differ, and the exact p."""

    delta: float
    p: float
    n: int
    better: int
    worse: int

    @property
    def discordant(self) -> int:
        """The samples on which they differ; the test looks at these alone."""
        return self.better + self.worse


def paired_test(values: Sequence[float], others: Sequence[float]) -> PairedTest:
    """The exact two-sided McNemar test: of the samples that differ, is the share that is better one half?

    On right or wrong this is McNemar's exact test; on means over draws or graded values it is the sign test.
    Raises ValueError for nothing to compare or for unequal lengths.
    """
    if not values or len(values) != len(others):
        raise ValueError(f"a paired test needs the same samples on both sides, found {len(values)} and {len(others)}")
    gaps = [mine - theirs for mine, theirs in zip(values, others, strict=True)]
    better, worse = sum(gap > 1e-9 for gap in gaps), sum(gap < -1e-9 for gap in gaps)
    return PairedTest(sum(gaps) / len(gaps), _coin_p(better, worse), len(gaps), better, worse)


def _coin_p(better: int, worse: int) -> float:
    """How often a coin falls at least as unevenly, to either side.

    In whole numbers: to import scipy.stats takes a second.
    """
    n, tail, ways = better + worse, 0, 1
    if n > 10_000:
        from scipy.stats import binomtest

        return float(binomtest(better, n, 0.5).pvalue)
    for k in range(min(better, worse) + 1):
        tail, ways = tail + ways, ways * (n - k) // (k + 1)
    return min(1.0, float(2 * tail / 2**n))


class MeanDifference(NamedTuple):
    """The mean of n paired differences with its 95 % interval and p; no interval where all differences are alike."""

    value: float
    low: float | None
    high: float | None
    p: float
    n: int


def mean_difference(gaps: Sequence[float]) -> MeanDifference:
    """The mean of the samples' paired differences, its t interval, and the p of the two-sided sign-flip test.

    Raises ValueError for no differences.
    """
    from scipy.special import stdtrit

    if not gaps:
        raise ValueError("a mean difference needs at least one sample")
    low, high, mean = None, None, fmean(gaps)
    if max(gaps) - min(gaps) > 1e-9:
        half = float(stdtrit(len(gaps) - 1, 0.975)) * stdev(gaps) / sqrt(len(gaps))
        low, high = mean - half, mean + half
    return MeanDifference(mean, low, high, _sign_flip_p(gaps), len(gaps))


def _sign_flip_p(gaps: Sequence[float]) -> float:
    """How often the sum of the differences is as far from 0 if each sign is a coin's (Fisher's randomisation test).

    Over all signs of up to 13 differences that are not 0, else over 10000 drawn ones, always the same.
    """
    moved = np.array([gap for gap in gaps if abs(gap) > 1e-9])
    far, count, random = abs(moved.sum()) - 1e-9, len(moved), np.random.default_rng(0)
    if count <= 13:
        signs = 1 - 2 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)
        return float(np.mean(np.abs(signs @ moved) >= far))
    drawn = (1 - 2 * random.integers(0, 2, (500, count), dtype=np.int8) for _ in range(20))
    return float((1 + sum(np.count_nonzero(np.abs(signs @ moved) >= far) for signs in drawn)) / 10001)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction (Holm 1979) of a family of p-values, in their order."""
    order = np.argsort(ps)
    stepped = np.asarray(ps, float)[order] * np.arange(len(ps), 0, -1)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(p) for p in corrected]
