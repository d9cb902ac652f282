"""An adaptive staircase: asks at the level whose answer is expected to tell most about the
threshold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.psychometrics.functions import COARSE, Psychometric, Threshold

Floats = NDArray[np.float64]


@lru_cache(maxsize=64)
def make_coarse(model: Psychometric) -> Psychometric:
    """The same functions on a coarser grid, which is enough to choose by."""
    return replace(model, coarse=COARSE)


@dataclass(eq=False)
class Staircase:
    """The answers so far, by level, and the choice of the next level.

    The next level is the one after whose answer the entropy of the threshold is expected to be
    least, slope and lapse rate summed out: the psi-marginal method (Kontsevich and Tyler 1999;
    Prins 2013). The first two questions are at the ends of the levels, so that whoever fits the
    answers later knows the range. `model` says which functions are thought possible.
    """

    model: Psychometric
    asked: Floats = field(init=False)
    right: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.asked, self.right = np.zeros(len(self.model.levels)), np.zeros(len(self.model.levels))
        self._coarse = make_coarse(self.model)
        self._weights = self._coarse.prior

    def choose(self, left: Collection[float] | None = None) -> float:
        """The next level, among those that are `left`; without it, among all. Raises ValueError for
        none."""
        usable = [
            number
            for number, level in enumerate(self.model.levels)
            if left is None or level in left
        ]
        if not usable:
            raise ValueError("no level is left to ask at")
        for end in (len(self.model.levels) - 1, 0):
            if end in usable and not self.asked[end]:
                return self.model.levels[end]
        # (levels, thresholds)
        hits = np.einsum("ltsr,tsr->lt", self._coarse.accuracy[usable], self._weights)
        misses = self._weights.sum(axis=(1, 2)) - hits
        expected = _entropy(hits) + _entropy(misses)
        return self.model.levels[usable[int(expected.argmin())]]

    def add(self, level: float, value: float) -> None:
        """An answer at a level: 1 right, 0 wrong, or between."""
        number = self.model.levels.index(level)
        self.asked[number] += 1
        self.right[number] += value
        accuracy = self._coarse.accuracy[number]
        weights = self._weights * accuracy**value * (1 - accuracy) ** (1 - value)
        self._weights = weights / weights.sum()

    def limits(self) -> tuple[float, float, float]:
        """Where the threshold lies after the answers so far: the interval's low end, its median,
        the high end."""
        return self.model.limits(self.asked, self.right)

    def threshold(self) -> Threshold:
        """The threshold after the answers so far."""
        return self.model.summarize(self.asked, self.right)


def _entropy(parts: Floats) -> Floats:
    """The entropy of each row's shares, times the row's sum."""
    total = parts.sum(axis=1, keepdims=True)
    shares = parts / np.maximum(total, 1e-300)
    return np.asarray(-(parts * np.log(np.maximum(shares, 1e-300))).sum(axis=1))
