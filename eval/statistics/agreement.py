"""Agreement of contestants or raters beyond chance, with intervals over clusters."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.statistics.bootstrap import Clusters, Estimate, Floats, bootstrap_statistic


def cohens_kappa(
    answers: Sequence[Hashable], others: Sequence[Hashable], clusters: Clusters | None = None
) -> Estimate:
    """Agreement of two raters beyond that of two independent ones with their habits (Cohen 1960).

    1 where only one answer occurs. The interval is the cluster bootstrap's. Raises ValueError for
    no items and for unequal lengths.
    """
    if len(answers) != len(others):
        raise ValueError(
            f"two raters need the same items, found {len(answers)} and {len(others)} answers"
        )
    (mine, theirs), count = _codes([answers, others])
    columns = np.column_stack([mine == theirs, np.eye(count)[mine], np.eye(count)[theirs]])

    def kappa(means: Floats) -> Floats:
        chance = (means[:, 1 : count + 1] * means[:, count + 1 :]).sum(axis=1)
        return _beyond(means[:, 0], chance)

    return bootstrap_statistic(columns, clusters, kappa, -1.0)


def fleiss_kappa(
    ratings: Sequence[Sequence[Hashable]], clusters: Clusters | None = None
) -> Estimate:
    """Agreement of any number of raters beyond chance (Fleiss 1971); `ratings` holds the answers of
    each rater.

    1 where only one answer occurs. The interval is the cluster bootstrap's. Raises ValueError for
    fewer than two raters, for no items, and for raters of unequal lengths.
    """
    if len(ratings) < 2 or len({len(one) for one in ratings}) > 1:
        raise ValueError(
            "two or more raters of the same items are needed, found"
            f" {[len(one) for one in ratings]}"
        )
    codes, count = _codes(ratings)
    raters, table = len(ratings), np.sum([np.eye(count)[code] for code in codes], axis=0)
    pairs = (np.square(table).sum(axis=1) - raters) / (raters * (raters - 1))
    columns = np.column_stack([pairs, table / raters])

    def kappa(means: Floats) -> Floats:
        return _beyond(means[:, 0], np.square(means[:, 1:]).sum(axis=1))

    return bootstrap_statistic(columns, clusters, kappa, -1.0)


def _codes(ratings: Sequence[Sequence[Hashable]]) -> tuple[list[NDArray[np.int64]], int]:
    """The answers of each rater as numbers, whatever answer comes first, and how many answers there
    are."""
    names = sorted({answer for answers in ratings for answer in answers}, key=repr)
    places = {answer: place for place, answer in enumerate(names)}
    codes = [np.array([places[answer] for answer in answers], np.int64) for answers in ratings]
    return codes, len(places)


def _beyond(observed: Floats, chance: Floats) -> Floats:
    """Kappa of an observed agreement and that of chance, 1 where chance leaves nothing to agree
    on."""
    room = 1 - chance
    return np.where(room > 1e-12, (observed - chance) / np.where(room > 1e-12, room, 1.0), 1.0)
