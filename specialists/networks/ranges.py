"""The ranges in which the settings of specialists lie."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple


class Range(NamedTuple):
    """Numbers from `low` to `high`; without `low` itself where they lie `above` it, without `high`
    where they lie `below`."""

    low: float = 0
    high: float = inf
    above: bool = False
    below: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float):
            return False
        over = value > self.low if self.above else value >= self.low
        return over and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        start = f"more than {self.low:g}" if self.above else f"{self.low:g} or more"
        end = f" and {'below' if self.below else 'at most'} {self.high:g}"
        return start + (end if self.high < inf else "")


POSITIVE = Range(above=True)
SHARE = Range(0, 1)
BELOW_1 = Range(0, 1, below=True)
"""Probabilities that a threshold may be, which some result has to exceed."""


def require(specialist: Any, **ranges: Range | int) -> None:
    """Raises ValueError where a setting lies outside its range, which a number alone gives the
    least of; None is no number and stays."""
    for name, wanted in ranges.items():
        value = getattr(specialist, name)
        limits = wanted if isinstance(wanted, Range) else Range(wanted)
        if value is not None and value not in limits:
            raise ValueError(f"{name} is {limits}, found {value}")


def require_odd(specialist: Any, name: str) -> None:
    """Raises ValueError where the side of a square is even, so that it has no middle."""
    side = getattr(specialist, name)
    if side < 1 or side % 2 == 0:
        raise ValueError(f"{name} is the odd side of a square, 1, 3, 5 ..., found {side}")
