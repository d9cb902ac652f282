"""The ranges in which the settings of specialists lie."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar, NamedTuple


class Range(NamedTuple):
    """Numbers from `low` to `high`; without `low` itself where they lie `above` it, without `high`
    where they lie `below`; `odd` ones alone are sides of squares that have a middle."""

    low: float = 0
    high: float = inf
    above: bool = False
    below: bool = False
    odd: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or (self.odd and value % 2 != 1):
            return False
        over = value > self.low if self.above else value >= self.low
        return over and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        if self.odd:
            return "the odd side of a square, 1, 3, 5 ..."
        start = f"more than {self.low:g}" if self.above else f"{self.low:g} or more"
        end = f" and {'below' if self.below else 'at most'} {self.high:g}"
        return start + (end if self.high < inf else "")


POSITIVE = Range(above=True)
ODD = Range(1, odd=True)
SHARE = Range(0, 1)
BELOW_1 = Range(0, 1, below=True)
"""Probabilities that a threshold may be, which some result has to exceed."""


class Checked:
    """Has settings that lie in their `ranges`, of which a number alone is the least. Raises
    ValueError."""

    ranges: ClassVar[Mapping[str, Range | int]] = {}

    def __post_init__(self) -> None:
        require(self, **self.ranges)


def require(specialist: Any, **ranges: Range | int) -> None:
    """Raises ValueError where a setting lies outside its range, which a number alone gives the
    least of; None is no number and stays."""
    for name, wanted in ranges.items():
        value = getattr(specialist, name)
        limits = wanted if isinstance(wanted, Range) else Range(wanted)
        if value is not None and value not in limits:
            raise ValueError(f"{name} is {limits}, found {value}")
