"""Thresholds of simulated observers: how often their intervals hold the truth, and what a staircase saves.

python bench/bench_thresholds.py [OBSERVERS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice, product

import numpy as np
from scipy.special import expit, logit

from looktwice.eval.adaptive.staircase import Staircase
from looktwice.eval.psychometrics.functions import Psychometric

TARGET, REPEATS, FIRST, MOST = 0.75, 20, 60, 400
GRID = tuple(float(level) for level in np.geomspace(0.1, 100, 13))  # such as contrasts in percent
FINE = tuple(float(level) for level in np.geomspace(0.1, 100, 61))  # a staircase need not keep to a few of them
CHOICES = {0.0: "free answers", 1 / 8: "8 choices", 1 / 4: "4 choices", 1 / 2: "2 choices"}
SLOPES = (2.0, 4.0, 8.0, 16.0)  # on the logarithm: accuracy rises within two thirds of the range, or a twelfth
LAPSES = (0.0, 0.02, 0.06)
MODELS = {guess: Psychometric(GRID, guess, TARGET, log=True) for guess in CHOICES}
STAIRS = {guess: Psychometric(FINE, guess, TARGET, log=True) for guess in CHOICES}


@dataclass(frozen=True)
class Observer:
    """Sees the better the stronger."""

    threshold: float
    guess: float
    slope: float
    lapse: float

    def accuracy(self, level: float) -> float:
        span = 1 - self.guess - self.lapse
        shift = logit((TARGET - self.guess) / span)
        return float(self.guess + span * expit(self.slope * np.log(level / self.threshold) + shift))

    def holds(self, limits: tuple[float, float, float]) -> bool:
        return limits[0] <= self.threshold <= limits[2]


@dataclass(frozen=True)
class Found:
    """Of one observer: whether each interval held the truth, and the questions of the staircase to the grid's width."""

    observer: Observer
    held: tuple[bool, bool, bool]
    asked: int
    bias: float


def draw(observers: int, rng: np.random.Generator) -> Iterator[Observer]:
    """All kinds equally often; thresholds lie anywhere in the middle four fifths of the levels."""
    for kind in islice(cycle(product(CHOICES, SLOPES, LAPSES)), observers):
        yield Observer(float(np.exp(rng.uniform(np.log(0.2), np.log(50)))), *kind)


def width(limits: tuple[float, float, float]) -> float:
    return float(np.log(limits[2] / limits[0]))


def observe(observer: Observer, rng: np.random.Generator) -> Found:
    """Every level of the grid equally often; a staircase until its interval is as narrow, and after 60 questions."""
    right = np.array([rng.binomial(REPEATS, observer.accuracy(level)) for level in GRID], float)
    grid = MODELS[observer.guess].limits(np.full(len(GRID), float(REPEATS)), right)
    stairs, asked, narrow, sixty = Staircase(STAIRS[observer.guess]), 0, None, None
    for number in range(1, MOST + 1):
        level = stairs.choose()
        stairs.add(level, float(rng.random() < observer.accuracy(level)))
        if (number >= 10 and number % 2 == 0 and narrow is None) or number in (FIRST, MOST):
            found = stairs.limits()
            sixty = found if number == FIRST else sixty
            if narrow is None and (number == MOST or width(found) <= width(grid)):
                narrow, asked = found, number
        if narrow and sixty:
            break
    assert narrow and sixty
    held = observer.holds(grid), observer.holds(narrow), observer.holds(sixty)
    return Found(observer, held, asked, float(np.log(narrow[1] / observer.threshold)))


def line(name: str, found: list[Found]) -> str:
    shares = np.array([each.asked for each in found]) / (len(GRID) * REPEATS)
    held = " | ".join(f"{100 * np.mean([each.held[place] for each in found]):.1f}" for place in range(3))
    bias = 100 * np.mean([each.bias for each in found])
    return f"| {name} | {len(found)} | {held} | {np.median(shares):.0%}, {np.mean(shares):.0%} | {bias:+.1f} |\n"


def main() -> None:
    observers = int(sys.argv[1]) if len(sys.argv) > 1 else 960
    rng, began = np.random.default_rng(0), time.monotonic()
    found = [observe(observer, rng) for observer in draw(observers, rng)]
    say = sys.stdout.write
    say(f"{len(GRID) * REPEATS} questions at {len(GRID)} levels, {time.monotonic() - began:.0f} s\n")
    say(
        "| observers | n | grid: holds % | staircase to its width | 60 questions | questions, median, mean | bias % |\n"
    )
    say("|---|---|---|---|---|---|---|\n")
    say(line("all", found))
    for guess, name in CHOICES.items():
        say(line(name, [each for each in found if each.observer.guess == guess]))
    for slope in SLOPES:
        say(line(f"slope {slope:g}", [each for each in found if each.observer.slope == slope]))
    for lapse in LAPSES:
        say(line(f"lapse {lapse:.0%}", [each for each in found if each.observer.lapse == lapse]))


if __name__ == "__main__":
    main()
