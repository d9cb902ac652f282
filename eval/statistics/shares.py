"""Intervals of shares in closed form: they need neither scipy nor a resampling."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

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
