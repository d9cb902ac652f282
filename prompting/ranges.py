"""Checks that the numbers among a stage's settings lie in their ranges."""

from __future__ import annotations

import operator
from typing import Any

__all__: list[str] = []

SIGNS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def check_ranges(settings: Any, *rules: str, prefix: str = "") -> None:
    """Raise ValueError for settings that break a rule such as "padding, margin >= 0" or
    "low < high"; null breaks none."""
    for rule in rules:
        *names, sign, bound = rule.replace(",", "").split()
        limit = getattr(settings, bound) if hasattr(settings, bound) else float(bound)
        for name in names:
            value = getattr(settings, name)
            try:
                holds = value is None or SIGNS[sign](value, limit)
            except TypeError as exc:
                raise ValueError(f"{prefix}{name} is to be a number, found {value!r}") from exc
            if not holds:
                raise ValueError(f"{prefix}{name} {sign} {bound} must hold, found {name}: {value}")
