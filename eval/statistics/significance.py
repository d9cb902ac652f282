"""Exact tests of paired differences, and corrections for many, without scipy.stats, which takes a
second to load."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.statistics.bootstrap import (
    Clusters,
    Estimate,
    bootstrap_mean,
    cluster_codes,
    cluster_sums,
)

Line = TypeVar("Line")


@lru_cache(maxsize=1024)
def mcnemar_p(better: int, worse: int) -> float:
    """The exact two-sided McNemar test: how often a coin falls at least as unevenly, to either
    side.

    It is a test of the mean difference only where each sample is right or wrong: `compare_paired`
    flips signs for graded values. In whole numbers: to import scipy.stats takes a second.
    """
    n, tail, ways = better + worse, 0, 1
    if n > 10_000:
        from scipy.special import betainc

        fewer = min(better, worse)
        return min(1.0, float(2 * betainc(n - fewer, fewer + 1, 0.5)))
    for k in range(min(better, worse) + 1):
        tail, ways = tail + ways, ways * (n - k) // (k + 1)
    return min(1.0, float(2 * tail / 2**n))


@dataclass(frozen=True)
class MeanDifference(Estimate):
    """The mean of n paired differences with its 95 % interval and the two-sided p."""

    p: float


def mean_difference(gaps: Sequence[float], clusters: Clusters | None = None) -> MeanDifference:
    """The mean of differences that have no two sides, such as contrasts of a sweep; else take
    `compare_paired`.

    The interval is that of every paired difference, a bootstrap over clusters; p is that of the
    two-sided sign-flip test, which flips whole clusters. Differences may lie beyond -1..1, as
    interactions do. Raises ValueError for none.
    """
    if not gaps:
        raise ValueError("a mean difference needs at least one sample")
    data = np.asarray(gaps, float)
    found = bootstrap_mean(data, clusters, floor=-1.0)
    sums, _ = cluster_sums(data, cluster_codes(clusters, len(gaps)))
    return MeanDifference(**vars(found), p=sign_flip_p(sums.tolist()))


def sign_flip_p(gaps: Sequence[float]) -> float:
    """How often the sum of the differences is as far from 0 if each sign is a coin's (Fisher's
    randomisation test).

    Over all signs of up to 13 differences that are not 0, else over 10000 drawn ones, always the
    same; of more than 10000 differences the sum is normal. Signs fall on the sizes of the
    differences in their order, so that p depends neither on the order of the differences nor on
    which side is subtracted.
    """
    moved = np.sort([abs(gap) for gap in gaps if abs(gap) > 1e-9])
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


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction (Holm 1979) of a family of p-values, in their order."""
    order = np.argsort(ps)
    return _in_their_order(
        order, np.maximum.accumulate(np.asarray(ps, float)[order] * np.arange(len(ps), 0, -1))
    )


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """The step-up correction of Benjamini and Hochberg (1995) of a family of p-values, in their
    order.

    Calling every result at or below q a find keeps the expected share of false finds among them at
    q, where the tests are independent or positively dependent.
    """
    order = np.argsort(ps)[::-1]
    stepped = np.asarray(ps, float)[order] * len(ps) / np.arange(len(ps), 0, -1)
    return _in_their_order(order, np.minimum.accumulate(stepped))


def _in_their_order(order: NDArray[np.int64], stepped: NDArray[np.float64]) -> list[float]:
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(p) for p in corrected]


def correct(
    lines: Sequence[Line], p: Callable[[Line], float | None], family: Callable[[Line], Hashable]
) -> list[Line]:
    """The lines, dataclasses with `p_holm` and `p_bh`, with both corrections of their p over those
    of their family.

    A line whose p is None stays as it is.
    """
    ps = {place: value for place, line in enumerate(lines) if (value := p(line)) is not None}
    corrected: list[Any] = list(lines)
    for name in {family(lines[place]) for place in ps}:
        places = [place for place in ps if family(lines[place]) == name]
        tested = [ps[place] for place in places]
        for place, p_holm, p_bh in zip(
            places, holm(tested), benjamini_hochberg(tested), strict=True
        ):
            corrected[place] = replace(corrected[place], p_holm=p_holm, p_bh=p_bh)
    return corrected
