"""Stability of the order of contestants: swaps between settings, and changes of ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from looktwice.eval.statistics.answers import Shares
from looktwice.eval.statistics.intervals import Clusters, Estimate, Floats, bootstrap_statistic


def swap_rate_over_settings(
    values: ArrayLike, others: ArrayLike, clusters: Clusters | None = None
) -> Estimate:
    """Estimate the probability that two contestants swap ranks between two settings drawn at random
    from the given ones.

    `values` and `others` are (settings, n units): the same units under each marker, prompt or draw.
    A tie in one of the two settings counts one half. The interval is a cluster bootstrap over the
    units; with few units, noise adds swaps and biases the estimate upwards. Raises ValueError for
    fewer than two settings, and without units.
    """
    gaps = np.asarray(values, float) - np.asarray(others, float)
    if gaps.ndim != 2 or len(gaps) < 2:
        raise ValueError(
            f"a swap between settings needs two settings, found the shape {gaps.shape}"
        )
    count = len(gaps)

    def swaps(
        means: Floats,
    ) -> Floats:  # (resamples, settings): the share of pairs with opposite signs
        signs = np.sign(np.round(means, 12))
        alike = (signs.sum(axis=1) ** 2 - np.square(signs).sum(axis=1)) / (count * (count - 1))
        return np.asarray((1 - alike) / 2)

    return bootstrap_statistic(gaps.T, clusters, swaps, 0.0)


class RankChanges(NamedTuple):
    """The changes of contestants' competition ranks from one set of values to another.

    The fields are the pairs that swap, the pairs tied in either set, the contestants whose rank
    changes, the largest change, and Kendall's tau-b.
    """

    flipped: int
    tied: int
    moved: int
    furthest: int
    tau: float


def compare_ranks(before: Shares, after: Shares) -> RankChanges:
    """Compare the ranks of names in `before` and `after`, each a value by name; larger is better.
    Only names in both count."""
    from scipy.stats import kendalltau

    names = [name for name in before if name in after]
    values = [np.array([level[name] for name in names]) for level in (before, after)]
    upper = np.triu_indices(len(names), 1)
    first, second = (np.sign(level[:, None] - level)[upper] for level in values)
    # the number of strictly better ones
    old, new = ((level[:, None] + 1e-9 < level).sum(axis=1) for level in values)
    moves = np.abs(old - new)
    return RankChanges(
        int((first * second < 0).sum()),
        int((first * second == 0).sum()),
        int((moves > 0).sum()),
        int(moves.max(initial=0)),
        float(kendalltau(*values).statistic),
    )
