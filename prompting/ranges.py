"""Checks that the numbers among a stage's settings lie in their ranges, and names the sample in
what goes wrong."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from looktwice.pipelines.sample import Sample

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


class Ranged:
    """Settings whose numbers hold the rules in `ranges` (`check_ranges`); a subclass adds its
    own."""

    ranges: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for kind in type(self).__mro__:
            check_ranges(self, *vars(kind).get("ranges", ()))


@contextmanager
def naming(sample: Sample) -> Iterator[None]:
    """Raise every ValueError again with the sample's id in front."""
    try:
        yield
    except ValueError as exc:
        raise ValueError(f"sample {sample.id}: {exc}") from exc
