"""Two contestants on the same units: their difference, how sure it is, and what so many units could have shown."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from looktwice.eval.statistics.bootstrap import Clusters, Floats, bootstrap_mean, cluster_codes, cluster_sums
from looktwice.eval.statistics.significance import paired_test, sign_flip_p

MCNEMAR, FLIP = "exact McNemar", "sign flips of clusters"


@dataclass(frozen=True)
class PairedComparison:
    """The mean of `values - others`, each in 0..1, over n units in `clusters` clusters.

    `low` and `high` are the cluster bootstrap interval, `p` is two-sided and `test` says by which test; `better` and
    `worse` count units. `detectable` is the smallest difference that so many units show with 80 % power.
    """

    value: float
    low: float
    high: float
    p: float
    n: int
    clusters: int
    better: int
    worse: int
    detectable: float
    test: str


def compare_paired(
    values: ArrayLike, others: ArrayLike, clusters: Clusters | None = None, level: float = 0.95
) -> PairedComparison:
    """Compares two contestants on the same units, in the same order.

    `clusters` names the cluster of each unit: units that share a picture, a pair or a group are not independent. Where
    each unit is its own cluster and right or wrong the test is McNemar's exact one; else Fisher's randomisation test,
    which flips the signs of whole clusters. Raises ValueError for no units and unequal lengths.
    """
    mine, theirs = np.asarray(values, float), np.asarray(others, float)
    test = paired_test(mine, theirs)
    gaps, codes = mine - theirs, cluster_codes(clusters, len(mine))
    found = bootstrap_mean(gaps, codes, level=level, floor=-1.0)
    sums, _ = cluster_sums(gaps, codes)
    exact = found.clusters == found.n and set(np.unique([mine, theirs])) <= {0.0, 1.0}
    p, name = (test.p, MCNEMAR) if exact else (sign_flip_p(sums.tolist()), FLIP)
    detectable = minimum_detectable(sums * found.clusters / found.n, 1 - level)
    return PairedComparison(
        found.value, found.low, found.high, p, found.n, found.clusters, test.better, test.worse, detectable, name
    )


def minimum_detectable(gaps: ArrayLike, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest mean difference that n independent differences, spread as these are, show with this power.

    It solves Connor's (1987) n = (z_a s + z_b sqrt(s^2 - d^2))^2 / d^2 for d, where s^2 is the mean square of the
    differences: for right or wrong answers the share of units on which the two differ. It is never below what the
    exact test needs to say anything, k units that all differ to one side with 2 * 0.5^k <= alpha; at most 1.
    """
    data: Floats = np.asarray(gaps, float)
    n, square = len(data), float(np.mean(np.square(data)))
    za, zb = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    root = n * za**2 - (n + zb**2) * (za**2 - zb**2)
    found = sqrt(square) * (sqrt(n) * za + sqrt(max(0.0, root))) / (n + zb**2)
    return min(1.0, max(found, ceil(1 + log2(1 / alpha)) / n))
