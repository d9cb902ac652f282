"""A race between arms: who can no longer win is not asked any more, and who wins is asked on
samples held out. It is run by bets, whose tests of paired differences are valid at any time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.statistics.paired import compare_paired

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
    differences, bar = np.asarray(gaps, float), np.log(2 / (1 - level))

    def wins(mean: float, sign: int) -> bool:
        away = sign * (differences - mean)
        logs = np.log1p(STAKES[:, None] / (1 + sign * mean + 1e-9) * away).sum(axis=1)
        return bool(logs.max() + np.log(np.exp(logs - logs.max()).mean()) >= bar)

    low, high = (
        _bisect(float(differences.mean()) if len(differences) else 0.0, sign, wins)
        for sign in (1, -1)
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


@dataclass(frozen=True)
class Confirmation:
    """The winner against the best of the others on samples that the race did not see."""

    rival: str
    n: int
    delta: float
    low: float
    high: float
    p: float

    def holds(self, level: float) -> bool:
        """Whether the winner is better there as well, at this level."""
        return self.delta > 0 and self.p <= level


@dataclass(eq=False)
class Race:
    """The arms of one task on samples in a random order; `level` is the chance of dropping the best
    arm.

    An arm falls out once the mean capital of the bets that each of the others is better reaches 1 /
    level: whichever arm is best, that mean is a supermartingale and does so with probability
    `level` at most, however often one looks. Of arms that are equally good, one alone is left with
    probability level * arms / (arms - 1) at most.
    """

    names: Sequence[str]
    level: float = 0.05
    values: list[Floats] = field(default_factory=list)
    dropped: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise ValueError(
                f"a race needs two arms or more, found {', '.join(self.names) or 'none'}"
            )
        self._bets = PairwiseBets(len(self.names))

    @property
    def left(self) -> list[str]:
        """The arms that may still win."""
        return [name for name in self.names if name not in self.dropped]

    @property
    def calls(self) -> int:
        """How many answers were taken in."""
        return int(sum(np.isfinite(row).sum() for row in self.values))

    def add(self, answers: dict[str, float]) -> None:
        """The values of one sample by arm, in 0..1, and drop whoever can no longer win."""
        row = np.array([answers.get(name, np.nan) for name in self.names], float)
        self.values.append(row)
        self._bets.add(row)
        capital = self._bets.capital
        # without the 1 of an arm against itself
        against = (capital.sum(axis=0) - 1) / (len(self.names) - 1)
        for number, name in enumerate(self.names):
            if name not in self.dropped and against[number] >= 1 / self.level:
                self.dropped[name] = len(self.values), self.names[int(capital[:, number].argmax())]

    @property
    def winner(self) -> str | None:
        """The arm that is left alone; None while there are several."""
        return self.left[0] if len(self.left) == 1 else None

    @property
    def rival(self) -> str:
        """The best of the others on the samples that it was asked, by its mean difference to the
        arm that leads."""
        lead = self.winner or self.leader
        others = [name for name in self.names if name != lead]
        return max(others, key=lambda name: float(np.mean(self.gaps(name, lead) or [-2.0])))

    @property
    def leader(self) -> str:
        """Of those left, the arm with the highest mean."""
        means = {
            name: np.nanmean([row[self.names.index(name)] for row in self.values])
            for name in self.left
        }
        return max(means, key=lambda name: float(means[name]))

    def gaps(self, name: str, rival: str) -> list[float]:
        """The differences of two arms on the samples that both were asked."""
        mine, theirs = self.names.index(name), self.names.index(rival)
        return [
            float(row[mine] - row[theirs])
            for row in self.values
            if np.isfinite(row[mine] - row[theirs])
        ]


def confirm(
    rival: str,
    mine: Sequence[float],
    theirs: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
) -> Confirmation:
    """The paired comparison of a winner's values with the rival's, on samples that did not choose
    it."""
    estimate = compare_paired(mine, theirs, clusters)
    return Confirmation(rival, estimate.n, estimate.value, estimate.low, estimate.high, estimate.p)
