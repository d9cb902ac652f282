"""Statistics of answers: agreement of contestants or raters, and the stability of the order of two
contestants over samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import chain
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from looktwice.eval.statistics.intervals import (
    Clusters,
    Estimate,
    Floats,
    bootstrap_statistic,
    cluster_sums,
    square_sum,
)


def cohens_kappa(
    answers: Sequence[Hashable], others: Sequence[Hashable], clusters: Clusters | None = None
) -> Estimate:
    """Compute the agreement of two raters beyond that of independent raters with the same answer
    frequencies (Cohen 1960).

    Kappa is 1 if only one answer occurs. The interval is a cluster bootstrap. Raises ValueError
    without items and for unequal lengths.
    """
    if len(answers) != len(others):
        raise ValueError(
            f"two raters need the same items, found {len(answers)} and {len(others)} answers"
        )
    first, second = _encode_ratings([answers, others])
    columns, count = np.column_stack([(first * second).sum(axis=1), first, second]), len(first.T)

    def kappa(means: Floats) -> Floats:
        chance = (means[:, 1 : count + 1] * means[:, count + 1 :]).sum(axis=1)
        return _compute_kappa(means[:, 0], chance)

    return bootstrap_statistic(columns, clusters, kappa, -1.0)


def fleiss_kappa(
    ratings: Sequence[Sequence[Hashable]], clusters: Clusters | None = None
) -> Estimate:
    """Compute the agreement of any number of raters beyond chance (Fleiss 1971); `ratings` holds
    the answers of each rater.

    Kappa is 1 if only one answer occurs. The interval is a cluster bootstrap. Raises ValueError for
    fewer than two raters, without items, and for raters with unequal numbers of answers.
    """
    if len(ratings) < 2 or len({*map(len, ratings)}) > 1:
        raise ValueError(
            f"agreement needs two or more raters of the same items, found {[*map(len, ratings)]}"
            " answers"
        )
    raters, table = len(ratings), np.sum(_encode_ratings(ratings), axis=0)
    pairs = (np.square(table).sum(axis=1) - raters) / (raters * (raters - 1))
    columns = np.column_stack([pairs, table / raters])

    def kappa(means: Floats) -> Floats:
        return _compute_kappa(means[:, 0], np.square(means[:, 1:]).sum(axis=1))

    return bootstrap_statistic(columns, clusters, kappa, -1.0)


def _encode_ratings(ratings: Sequence[Sequence[Hashable]]) -> list[Floats]:
    """One-hot encode the answers of each rater, (items, answers), in a common order."""
    names = sorted(set(chain(*ratings)), key=repr)
    place = {name: number for number, name in enumerate(names)}
    kinds, identity = [map(place.__getitem__, answers) for answers in ratings], np.eye(len(names))
    return [identity.take(np.fromiter(kind, np.int64), axis=0) for kind in kinds]


def _compute_kappa(observed: Floats, chance: Floats) -> Floats:
    """Compute kappa from observed and chance agreement; 1 if chance agreement is complete."""
    rest = 1 - chance
    return np.where(rest > 1e-12, (observed - chance) / np.where(rest > 1e-12, rest, 1.0), 1.0)


def compute_majority_value(answers: Sequence[str | None], values: Sequence[float]) -> float:
    """Return the value of the most frequent answer; at a tie, the mean value of the tied answers;
    without answers, 0."""
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        return 0.0
    top = max(counts.values())
    by_answer = dict(zip(answers, values, strict=True))
    leaders = [by_answer[answer] for answer, count in counts.items() if count == top]
    return sum(leaders) / len(leaders)


def swap_rate_over_halves(gaps: ArrayLike, clusters: Clusters | None = None) -> Estimate:
    """Estimate the probability that two new sets of half as many units each rank two contestants in
    opposite orders.

    `gaps` are the paired differences of n units; their mean and spread stand for the population.
    The result is not how often halves of these units disagree, because such halves deviate from
    their common mean in opposite directions. With z the mean over its clustered standard error, a
    half ranks them wrongly with q = Phi(-z / sqrt 2), and two halves disagree with 2 q (1 - q),
    which is at most one half, reached without a difference. The interval is computed from the
    limits of z. Raises ValueError without units.
    """
    data = np.asarray(gaps, float)
    sums, sizes = cluster_sums(data, clusters)
    mean, m = float(data.mean()), len(sizes)
    error = sqrt(square_sum(sums - sizes * mean) * m / max(1, m - 1)) / len(data)
    if error == 0:
        swap = 0.5 if mean == 0 else 0.0
        return Estimate(swap, swap, swap, len(data), m)
    normal, z = NormalDist(), abs(mean) / error
    reach = normal.inv_cdf(0.975)

    def disagree(at: float) -> float:
        wrong = normal.cdf(-at / sqrt(2))
        return 2 * wrong * (1 - wrong)

    return Estimate(disagree(z), disagree(z + reach), disagree(max(0.0, z - reach)), len(data), m)
