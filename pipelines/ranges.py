"""Checks that the numeric settings of a stage or model lie in their ranges."""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

__all__: list[str] = []

COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    ">": ("greater than ", operator.gt),
    ">=": ("at least ", operator.ge),
    "<": ("less than ", operator.lt),
    "<=": ("at most ", operator.le),
    "is": ("", lambda value, _: value % 2 == 1),  # odd, such as the side of a square
}


def check_ranges(settings: Any, *rules: str, prefix: str = "") -> None:
    """Raise ValueError for settings that break a rule such as "padding, margin >= 0", "low < high"
    or "window is odd", and TypeError for a setting that is not a number. None satisfies every rule.
    """
    for rule in rules:
        *names, sign, bound = rule.replace(",", "").split()
        limit, (relation, holds) = getattr(settings, bound, bound), COMPARISONS[sign]
        stated = f"{relation}{bound}" if limit == bound else f"{relation}{bound} ({limit})"
        if isinstance(limit, str) and limit != "odd":
            limit = float(limit)
        for name in names:
            value = getattr(settings, name)
            if not isinstance(value, Real | None):
                raise TypeError(f"{prefix}{name} must be a number, found {value!r}")
            if value is not None and not holds(value, limit):
                raise ValueError(f"{prefix}{name} must be {stated}, got {value}")


class Ranged:
    """A base class for settings whose numbers must satisfy the rules in `ranges`
    (`check_ranges`); subclasses add their own rules."""

    ranges: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for kind in type(self).__mro__:
            check_ranges(self, *vars(kind).get("ranges", ()))
