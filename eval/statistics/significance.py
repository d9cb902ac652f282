"""Exact tests of paired differences, and corrections for many, without scipy.stats, which takes a second to load."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from looktwice.eval.statistics.bootstrap import Floats, cluster_codes, cluster_sums


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
    better, worse = (sum(1 for gap in gaps if sign * gap > 1e-9) for sign in (1, -1))  # numpy's would overflow
    return PairedTest(sum(gaps) / len(gaps), _coin_p(better, worse), len(gaps), better, worse)


def _coin_p(better: int, worse: int) -> float:
    """How often a coin falls at least as unevenly, to either side.

    In whole numbers: to import scipy.stats takes a second.
    """
    n, tail, ways = better + worse, 0, 1
    if n > 10_000:
        from scipy.special import betainc

        fewer = min(better, worse)
        return min(1.0, float(2 * betainc(n - fewer, fewer + 1, 0.5)))
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


def mean_difference(gaps: Sequence[float], clusters: Sequence[Hashable] | None = None) -> MeanDifference:
    """The mean of the samples' paired differences, its t interval, and the p of the two-sided sign-flip test.

    Samples of one cluster count as one unit in both: the interval is that of Liang and Zeger (1986) for a mean, with
    m / (m - 1) and m - 1 degrees of freedom for m clusters, and the test flips whole clusters. Without clusters it is
    Student's. Raises ValueError for no differences.
    """
    if not gaps:
        raise ValueError("a mean difference needs at least one sample")
    data = np.asarray(gaps, float)
    sums, sizes = cluster_sums(data, cluster_codes(clusters, len(gaps)))
    low, high = t_interval(sums, sizes)
    return MeanDifference(float(data.mean()), low, high, sign_flip_p(sums.tolist()), len(gaps))


def t_interval(sums: Floats, sizes: Floats) -> tuple[float, float] | tuple[None, None]:
    """The 95 % interval of a mean from the sums and sizes of its clusters; None where all values are alike."""
    from scipy.special import stdtrit

    mean, m = float(sums.sum() / sizes.sum()), len(sizes)
    off = float(np.square(sums - sizes * mean).sum())
    if off <= 1e-12:
        return None, None
    half = float(stdtrit(m - 1, 0.975)) * sqrt(off * m / (m - 1)) / float(sizes.sum())
    return mean - half, mean + half


def sign_flip_p(gaps: Sequence[float]) -> float:
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


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """The step-up correction of Benjamini and Hochberg (1995) of a family of p-values, in their order.

    Calling every result at or below q a find keeps the expected share of false finds among them at q, where the tests
    are independent or positively dependent.
    """
    order = np.argsort(ps)[::-1]
    stepped = np.asarray(ps, float)[order] * len(ps) / np.arange(len(ps), 0, -1)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(np.minimum.accumulate(stepped), 1.0)
    return [float(p) for p in corrected]
