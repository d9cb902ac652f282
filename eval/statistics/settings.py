"""What a setting changes: main effects and interactions of a factorial sweep, and whether the order
of two contestants would hold over settings, draws and other samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import sqrt
from statistics import NormalDist, fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from looktwice.eval.statistics.intervals import (
    Clusters,
    Estimate,
    Floats,
    bootstrap_statistic,
    cluster_codes,
    cluster_sums,
)

Cell = tuple[str, ...]
"""A combination of a sweep: the level of every factor."""

Values = Mapping[str, float]
"""The value of every unit of a cell."""


def contrast(
    cells: Mapping[Cell, Values], changes: Mapping[int, tuple[str, str]]
) -> dict[str, float]:
    """What changing these factors together does to every unit, beyond what each of them does alone.

    `changes` maps the number of a factor to (level, against). For one factor a unit's contrast is
    its value at the level less that against it, the main effect; for two it is the difference of
    two such differences, the interaction, and so on. It is the mean over the combinations of the
    other factors that have every cell of the contrast, and covers the units that all these cells
    have. In a complete sweep of right or wrong answers the mean over units is the coefficient of a
    saturated linear model with sums over the other factors.
    """
    squares: list[dict[tuple[bool, ...], Values]] = []
    for rest in dict.fromkeys(
        tuple("" if i in changes else level for i, level in enumerate(cell)) for cell in cells
    ):
        square = {}
        for sides in product((True, False), repeat=len(changes)):
            chosen = {
                number: levels[0] if side else levels[1]
                for (number, levels), side in zip(changes.items(), sides, strict=True)
            }
            cell = tuple(chosen.get(i, level) for i, level in enumerate(rest))
            if cell in cells:
                square[sides] = cells[cell]
        if len(square) == 2 ** len(changes):
            squares.append(square)
    return _mean_contrast(squares)


def _mean_contrast(squares: Sequence[Mapping[tuple[bool, ...], Values]]) -> dict[str, float]:
    if not squares:
        return {}
    units = set.intersection(*(set(values) for square in squares for values in square.values()))
    signs = {sides: (-1) ** sides.count(False) for sides in squares[0]}
    return {
        unit: fmean(
            sum(signs[sides] * values[unit] for sides, values in square.items())
            for square in squares
        )
        for unit in sorted(units)
    }


def swap_over_settings(
    values: ArrayLike, others: ArrayLike, clusters: Clusters | None = None
) -> Estimate:
    """The probability that two contestants swap places between two settings, taken at random of
    those that there are.

    `values` and `others` are (settings, n units): the same units under each marker, prompt or draw.
    Of two settings a tie in one counts one half. The interval is the cluster bootstrap's over the
    units; noise of few units adds swaps, so it lies rather too high. Raises ValueError for fewer
    than two settings, and for no units.
    """
    gaps = np.asarray(values, float) - np.asarray(others, float)
    if gaps.ndim != 2 or len(gaps) < 2:
        raise ValueError(
            f"a swap between settings needs two of them, found an array of shape {gaps.shape}"
        )
    return bootstrap_statistic(gaps.T, clusters, _swaps, 0.0)


def _swaps(means: Floats) -> Floats:
    """For each row of mean differences by setting: the share of pairs of settings with other
    signs."""
    signs, count = np.sign(np.round(means, 12)), means.shape[1]
    alike = (signs.sum(axis=1) ** 2 - np.square(signs).sum(axis=1)) / (count * (count - 1))
    return np.asarray((1 - alike) / 2)


def swap_over_halves(gaps: ArrayLike, clusters: Clusters | None = None) -> Estimate:
    """The probability that two new sets of half as many units each put two contestants in opposite
    orders.

    `gaps` are the paired differences of n units, whose mean and spread are taken for those of all
    units there might be. So it is not how often halves of these very units disagree, which lean to
    opposite sides of their common mean. With z the mean over its clustered standard error, a half
    errs with q = Phi(-z / sqrt 2), and the halves disagree with 2 q (1 - q): at most one half,
    where there is no difference. The interval is that of the limits of z. Raises ValueError for no
    units.
    """
    data = np.asarray(gaps, float)
    sums, sizes = cluster_sums(data, cluster_codes(clusters, len(data)))
    mean, m = float(data.mean()), len(sizes)
    error = sqrt(float(np.square(sums - sizes * mean).sum()) * m / max(1, m - 1)) / len(data)
    if error == 0:
        swap = 0.5 if mean == 0 else 0.0
        return Estimate(swap, swap, swap, len(data), m)
    normal, z = NormalDist(), abs(mean) / error
    reach = normal.inv_cdf(0.975)

    def disagree(at: float) -> float:
        wrong = normal.cdf(-at / sqrt(2))
        return 2 * wrong * (1 - wrong)

    return Estimate(disagree(z), disagree(z + reach), disagree(max(0.0, z - reach)), len(data), m)


class Reordering(NamedTuple):
    """How the competition ranks of contestants change from one set of values to another.

    Pairs that change places, pairs tied in either, contestants with another rank, the largest move,
    and Kendall's tau-b.
    """

    flipped: int
    tied: int
    moved: int
    furthest: int
    tau: float


def reordering(before: Mapping[str, float], after: Mapping[str, float]) -> Reordering:
    """The ranks under `before` and `after`, each a value by name; larger is better. The names that
    both have count."""
    from scipy.stats import kendalltau

    names = [name for name in before if name in after]
    values = [np.array([level[name] for name in names]) for level in (before, after)]
    upper = np.triu_indices(len(names), 1)
    first, second = (np.sign(level[:, None] - level)[upper] for level in values)
    # how many are strictly better
    old, new = ((level[:, None] + 1e-9 < level).sum(axis=1) for level in values)
    moves = np.abs(old - new)
    return Reordering(
        int((first * second < 0).sum()),
        int((first * second == 0).sum()),
        int((moves > 0).sum()),
        int(moves.max(initial=0)),
        float(kendalltau(*values).statistic),
    )
