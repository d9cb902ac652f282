"""Anytime-valid tests of paired differences by betting, and the confidence sequence that comes with
them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STAKES = np.concatenate([np.linspace(0.02, 0.4, 20), np.linspace(0.45, 0.95, 11)])
"""Shares of the capital that are bet at once; the capital is the mean over all of them."""


class PairwiseBets:
    """For every two of `n` arms the capital of bets that the first is better; of an arm against
    itself it stays 1.

    With differences d in -1..1 and stakes s, the capital is the mean over s of the product of (1 +
    s d). Where the first arm is not better on average it is a supermartingale that begins at 1, so
    that it ever reaches 1/a with probability a at most (Ville): one may look after every sample
    (Waudby-Smith and Ramdas 2024).
    """

    def __init__(self, n: int) -> None:
        self.logs: Floats = np.zeros((len(STAKES), n, n))

    def add(self, values: Floats) -> None:
        """The values of all arms on one sample, (n,) in 0..1; of an arm that was not asked it is
        NaN, and no bet."""
        gaps = np.nan_to_num(values[:, None] - values[None, :])
        self.logs += np.log1p(STAKES[:, None, None] * gaps)

    @property
    def capital(self) -> Floats:
        """(n, n): how sure it is that the arm of the row is better than that of the column."""
        top = self.logs.max(axis=0)
        return np.asarray(np.exp(top) * np.exp(self.logs - top).mean(axis=0))


def confidence_sequence(gaps: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """An interval of the mean of paired differences in -1..1 that holds at all times together, not
    only at the end.

    It has the means against which neither bet, that it is more or that it is less, has won 2 / (1 -
    level).
    """
    found, bar = np.asarray(gaps, float), np.log(2 / (1 - level))

    def wins(mean: float, sign: int) -> bool:
        away = sign * (found - mean)
        logs = np.log1p(STAKES[:, None] / (1 + sign * mean + 1e-9) * away).sum(axis=1)
        return bool(logs.max() + np.log(np.exp(logs - logs.max()).mean()) >= bar)

    low, high = (
        _bisect(float(found.mean()) if len(found) else 0.0, sign, wins) for sign in (1, -1)
    )
    return low, high


def _bisect(start: float, sign: int, wins: Callable[[float, int], bool]) -> float:
    """From the sample's mean, where no bet wins, towards -1 (sign 1) or 1 (sign -1) until the bet
    wins."""
    inside, outside = start, -float(sign)
    if not wins(outside * (1 - 1e-6), sign):
        return outside
    for _ in range(40):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if wins(middle, sign) else (middle, outside)
    return outside
