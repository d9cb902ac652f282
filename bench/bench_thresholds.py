"""Thresholds of simulated observers: how often their intervals hold the truth, and what a staircase saves.

python bench/bench_thresholds.py [OBSERVERS]
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from looktwice.eval.adaptive.staircase import Staircase
from looktwice.eval.psychometrics.functions import Psychometric, Threshold

TARGET, REPEATS, MOST = 0.75, 20, 400
GRID = tuple(float(level) for level in np.geomspace(0.1, 100, 13))  # such as contrasts in percent
FINE = tuple(float(level) for level in np.geomspace(0.1, 100, 61))  # a staircase need not keep to a few of them
MODELS = {guess: Psychometric(GRID, guess, TARGET, log=True) for guess in (0.0, 0.25, 0.5)}
STAIRS = {guess: Psychometric(FINE, guess, TARGET, log=True) for guess in MODELS}


@dataclass(frozen=True)
class Observer:
    """Sees the better the stronger; its threshold lies anywhere in the middle four fifths of the levels.

    Its slope on the logarithm is 2.5 to 10, about that of Weibull functions with the usual exponents of 2 to 6.
    """

    threshold: float
    slope: float
    guess: float
    lapse: float

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Observer:
        place, slope = np.exp(rng.uniform(np.log([0.2, 2.5]), np.log([50.0, 10.0])))
        return cls(float(place), float(slope), float(rng.choice([*MODELS])), float(rng.choice([0.0, 0.02, 0.04])))

    def accuracy(self, level: float) -> float:
        span = 1 - self.guess - self.lapse
        shift = logit((TARGET - self.guess) / span)
        return float(self.guess + span * expit(self.slope * np.log(level / self.threshold) + shift))

    def holds(self, found: Threshold) -> bool:
        return found.low <= self.threshold <= found.high


def width(found: Threshold) -> float:
    return float(np.log(found.high / found.low))


def ask_grid(observer: Observer, rng: np.random.Generator) -> Threshold:
    """Every level equally often."""
    asked = np.full(len(GRID), float(REPEATS))
    right = np.array([rng.binomial(REPEATS, observer.accuracy(level)) for level in GRID], float)
    return MODELS[observer.guess].summarize(asked, right)


def climb(observer: Observer, wanted: float, rng: np.random.Generator) -> tuple[int, Threshold]:
    """A staircase until its interval is as narrow; how many questions that took."""
    stairs = Staircase(STAIRS[observer.guess])
    for number in range(1, MOST + 1):
        level = stairs.choose()
        stairs.add(level, float(rng.random() < observer.accuracy(level)))
        if number >= 10 and number % 2 == 0:
            found = stairs.threshold()
            if width(found) <= wanted:
                return number, found
    return MOST, stairs.threshold()


def main() -> None:
    observers = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rng, began, whole = np.random.default_rng(0), time.monotonic(), len(GRID) * REPEATS
    held: dict[str, list[bool]] = {"the grid": [], "a staircase to the grid's width": [], "60 questions": []}
    saved: dict[float, list[float]] = {guess: [] for guess in MODELS}
    for _ in range(observers):
        observer = Observer.draw(rng)
        grid = ask_grid(observer, rng)
        asked, found = climb(observer, width(grid), rng)
        stairs = Staircase(STAIRS[observer.guess])
        for _ in range(60):
            level = stairs.choose()
            stairs.add(level, float(rng.random() < observer.accuracy(level)))
        for name, threshold in zip(held, (grid, found, stairs.threshold()), strict=True):
            held[name].append(observer.holds(threshold))
        saved[observer.guess].append(asked / whole)
    say = sys.stdout.write
    say(f"{observers} observers, {whole} questions at {len(GRID)} levels, {time.monotonic() - began:.0f} s\n")
    for name, each in held.items():
        say(f"truth within the 95 % interval of {name}: {np.mean(each):.1%}\n")
    say("questions of a staircase to the grid's width, as a share of the grid's: median, mean\n")
    for guess, shares in [*saved.items(), ("all", [share for each in saved.values() for share in each])]:
        say(f"  guessing {guess}: {np.median(shares):.1%}, {np.mean(shares):.1%}\n")


if __name__ == "__main__":
    main()
