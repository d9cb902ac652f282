"""Contrasts of a sweep, such as interactions, and the mean of such differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from looktwice.eval.statistics.intervals import (
    Clusters,
    Estimate,
    Floats,
    bootstrap_mean,
    cluster_sums,
)
from looktwice.eval.statistics.paired import sign_flip_p


def mean_difference(
    gaps: ArrayLike, clusters: Clusters | None = None, strata: Clusters | None = None
) -> Estimate:
    """Compute the mean of differences that are not paired, such as contrasts of a sweep; for paired
    differences use `compare_paired`.

    The interval is the cluster bootstrap also used for paired differences; p is from the two-sided
    sign-flip test, which flips whole clusters. `strata` names the task of each difference, as for
    `bootstrap_mean`. Differences may lie beyond -1..1, as interactions do. Raises ValueError
    without differences.
    """
    data = np.asarray(gaps, float)
    sums, _ = cluster_sums(data, clusters)
    mean = bootstrap_mean(data, clusters, floor=-1.0, strata=strata)
    return replace(mean, p=sign_flip_p(sums.tolist()))


Cell = tuple[str, ...]
"""One combination of levels in a sweep: the level of every factor."""


def contrast(cells: Sequence[Cell | None], changes: Mapping[int, tuple[str, str]]) -> Floats:
    """Return the weight of each cell in the joint effect of changing these factors beyond their
    separate effects; all weights are 0 if no combination has every cell.

    `changes` maps the index of a factor to (level, reference). For one factor the weighted sum is
    the value at the level less that at the reference, the main effect; for two it is the difference
    of two such differences, the interaction, and so on. It is averaged over the combinations of the
    other factors that have every cell of the contrast. In a complete sweep of right or wrong
    answers, its mean over units is the coefficient of a saturated linear model with sum coding of
    the other factors.
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
