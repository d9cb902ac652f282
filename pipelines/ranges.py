"""Checks that the numbers among the settings of a stage or model lie in their ranges."""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

__all__: list[str] = []

SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "is": lambda value, _: value % 2 == 1,  # odd, as the side of a square
}


def check_ranges(settings: Any, *rules: str, prefix: str = "") -> None:
    """Raise ValueError for settings that break a rule such as "padding, margin >= 0" or
    "low < high" or "window is odd", and TypeError for one that is no number; null breaks none."""
    for rule in rules:
        *names, sign, bound = rule.replace(",", "").split()
        limit = getattr(settings, bound, bound)
        if isinstance(limit, str) and limit != "odd":
            limit = float(limit)
        for name in names:
            value = getattr(settings, name)
            if not isinstance(value, Real | None):
                raise TypeError(f"{prefix}{name} is a number, found {value!r}")
            if value is not None and not SIGNS[sign](value, limit):
                raise ValueError(f"{prefix}{name} {sign} {bound} must hold, found {name}: {value}")


class Ranged:
    """Settings whose numbers hold the rules in `ranges` (`check_ranges`); a subclass adds its
    own."""

    ranges: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for kind in type(self).__mro__:
            check_ranges(self, *vars(kind).get("ranges", ()))
