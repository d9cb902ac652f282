"""Main effects and interactions of a factorial sweep, as one contrast of every unit that all its
cells have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean

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
