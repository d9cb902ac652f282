"""The values of several arms on the same units as one matrix: each arm alone, any two of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.statistics.intervals import Estimate, Floats, cluster_codes, share_interval
from looktwice.eval.statistics.paired import compare_paired

Arm = TypeVar("Arm", bound=Hashable)
Unit = TypeVar("Unit", bound=Hashable)
Part = TypeVar("Part", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Values(Generic[Arm, Unit]):
    """What each arm is worth on each unit: `value` is (arms, units) in 0..1, and NaN where an arm
    failed, was not asked, or has no key.

    `units` are samples, or pairs (task, sample) where several tasks have samples of one name.
    `clusters` is a number for each of them, the same for units that share a picture or a group.
    """

    value: Floats
    arms: tuple[Arm, ...]
    units: tuple[Unit, ...]
    clusters: NDArray[np.int64]

    @classmethod
    def of(
        cls, arms: Mapping[Arm, Mapping[Unit, float]], clusters: Mapping[Unit, Hashable]
    ) -> Values[Arm, Unit]:
        """The matrix of the values by unit of each arm; units stand in the order of the first arm
        that has them.

        A unit that `clusters` does not name is a cluster of its own.
        """
        units = tuple(dict.fromkeys(unit for values in arms.values() for unit in values))
        value = np.array([[values.get(unit, np.nan) for unit in units] for values in arms.values()])
        names = [clusters.get(unit, (unit,)) for unit in units]
        codes = cluster_codes(names, len(units)) if units else np.zeros(0, np.int64)
        return cls(value.reshape(len(arms), len(units)), tuple(arms), units, codes)

    def __getitem__(self, arm: Arm) -> Floats:
        """The values of an arm, (units,)."""
        return np.asarray(self.value[self.arms.index(arm)])

    def has(self, *arms: Arm) -> NDArray[np.bool_]:
        """Which units each of these arms has a value on; without arms, each arm at all."""
        rows = [self[arm] for arm in arms] if arms else self.value
        return np.asarray(~np.isnan(rows).any(axis=0))

    def where(self, wanted: NDArray[np.bool_]) -> Values[Arm, Unit]:
        """The same of some units alone; `wanted` is (units,)."""
        units = tuple(unit for unit, keep in zip(self.units, wanted, strict=True) if keep)
        return replace(
            self, value=self.value[:, wanted], units=units, clusters=self.clusters[wanted]
        )

    def by(self, part: Callable[[Unit], Part]) -> dict[Part, Values[Arm, Unit]]:
        """The matrix in parts, by what `part` says of a unit, such as its task."""
        parts = [part(unit) for unit in self.units]
        return {
            name: self.where(np.array([each == name for each in parts], bool))
            for name in dict.fromkeys(parts)
        }

    def mean(self, arm: Arm) -> Estimate | None:
        """The mean of an arm with its interval (`share_interval`); None without a value."""
        has = self.has(arm)
        if not has.any():
            return None
        return share_interval(self[arm][has], self.clusters[has].tolist())

    def pair(self, arm: Arm, other: Arm) -> Estimate | None:
        """An arm less another on the units that both have (`compare_paired`); None where there is
        none."""
        both = self.has(arm, other)
        if not both.any():
            return None
        return compare_paired(self[arm][both], self[other][both], self.clusters[both].tolist())

    def left_out(self, arm: Arm, other: Arm) -> int:
        """On how many units one of the two has a value and the other has none."""
        return int((self.has(arm) ^ self.has(other)).sum())
