"""Two contestants on the same units: their difference, how sure it is, and what so many units could
have shown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looktwice.eval.statistics.bootstrap import (
    Clusters,
    bootstrap_mean,
    cluster_codes,
    cluster_sums,
)
from looktwice.eval.statistics.significance import MeanDifference, mcnemar_p, sign_flip_p

MCNEMAR, FLIP = "exact McNemar", "sign flips of clusters"
NORMAL = 1000  # of more differences the exact test is as good as the normal one


@dataclass(frozen=True)
class PairedComparison(MeanDifference):
    """The mean of `values - others`, each in 0..1, over n units in `clusters` clusters.

    `low` and `high` are the cluster bootstrap interval, `p` is two-sided and `test` says by which
    test; `better` and `worse` count units. `detectable` is the smallest difference that the test
    shows with 80 % power.
    """

    better: int
    worse: int
    detectable: float
    test: str


def compare_paired(
    values: ArrayLike, others: ArrayLike, clusters: Clusters | None = None, level: float = 0.95
) -> PairedComparison:
    """Compares two contestants on the same units, in the same order.

    `clusters` names the cluster of each unit: units that share a picture, a pair or a group are not
    independent. Where each unit is its own cluster and right or wrong the test is McNemar's exact
    one; else Fisher's randomisation test, which flips the signs of whole clusters. Raises
    ValueError for no units and unequal lengths.
    """
    mine, theirs = np.asarray(values, float), np.asarray(others, float)
    if not len(mine) or len(mine) != len(theirs):
        raise ValueError(
            f"a paired test needs the same samples on both sides, found {len(mine)} and"
            f" {len(theirs)}"
        )
    gaps, codes = mine - theirs, cluster_codes(clusters, len(mine))
    better, worse = (int(np.count_nonzero(sign * gaps > 1e-9)) for sign in (1, -1))
    found = bootstrap_mean(gaps, codes, level=level, floor=-1.0)
    sums, _ = cluster_sums(gaps, codes)
    exact = found.clusters == found.n and set(np.unique([mine, theirs])) <= {0.0, 1.0}
    p, test = (mcnemar_p(better, worse), MCNEMAR) if exact else (sign_flip_p(sums.tolist()), FLIP)
    detectable = minimum_detectable(sums * found.clusters / found.n, 1 - level)
    return PairedComparison(
        **vars(found), p=p, better=better, worse=worse, detectable=detectable, test=test
    )


def minimum_detectable(gaps: ArrayLike, alpha: float = 0.05, power: float = 0.8) -> float:
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
    differing = total * total / float(np.square(squares).sum()) if total > 0 else 0.0
    size = sqrt(total / differing) if total > 0 else 1.0
    za, zb = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    root = n * za**2 - (n + zb**2) * (za**2 - zb**2)
    normal = sqrt(differing / n) * (sqrt(n) * za + sqrt(max(0.0, root))) / (n + zb**2)
    if differing > NORMAL:
        return min(1.0, size * normal)
    low, high = 0.0, min(1.0, 2 * normal + 16 / n)
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        enough = _exact_power(n, differing / n, middle, alpha) >= power
        low, high = (low, middle) if enough else (middle, high)
    return min(1.0, size * high)


def _exact_power(n: int, differing: float, difference: float, alpha: float) -> float:
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
    most = _most_on_the_smaller_side(1 << last.bit_length(), alpha)[counts]
    sides = (1 - difference / share) / 2, (1 + difference / share) / 2
    found = np.where(most < 0, 0.0, sum(bdtr(np.maximum(most, 0), counts, side) for side in sides))
    return float(weights @ found / weights.sum())


@lru_cache(maxsize=64)
def _most_on_the_smaller_side(n: int, alpha: float) -> NDArray[np.int64]:
    """Of 0 to n pairs that differ, the most on the smaller side with which the exact test finds
    something; else -1."""
    from scipy.special import bdtr

    found, most = np.full(n + 1, -1), -1
    for count in range(n + 1):
        while bdtr(most + 1, count, 0.5) <= alpha / 2:
            most += 1
        found[count] = most
    return found
