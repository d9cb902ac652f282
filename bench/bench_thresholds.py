"""Thresholds of simulated observers: the coverage of their intervals, and the number of questions
that a staircase saves.

python bench/bench_thresholds.py [OBSERVERS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from looktwice.extras.adaptive.fit_checks import check_fit
from looktwice.extras.adaptive.functions import PsychometricGrid, fit_threshold
from looktwice.extras.adaptive.runs import Staircase

Floats = NDArray[np.float64]

TARGET, REPEATS, SHORT_STAIRCASE, MAX_QUESTIONS = 0.75, 20, 60, 400
GRID = tuple(float(level) for level in np.geomspace(0.1, 100, 13))  # such as contrasts in percent
# the levels of a staircase
FINE = tuple(float(level) for level in np.geomspace(0.1, 100, 61))
CHOICES = {0.0: "free answers", 1 / 8: "8 choices", 1 / 4: "4 choices", 1 / 2: "2 choices"}
# on the log scale: accuracy rises within two thirds of the range, down to a twelfth
SLOPES = (2.0, 4.0, 8.0, 16.0)
LAPSES = (0.0, 0.02, 0.06)
MODELS = {guess: PsychometricGrid(GRID, guess, TARGET, is_log=True) for guess in CHOICES}
STAIRS = {guess: PsychometricGrid(FINE, guess, TARGET, is_log=True) for guess in CHOICES}


@dataclass(frozen=True)
class Observer:
    """An observer whose accuracy rises with the stimulus level."""

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
class ObserverResult:
    """Results for one observer: whether each interval covers the true threshold, and the number of
    questions with which the staircase reaches the grid's width."""

    observer: Observer
    held: tuple[bool, bool, bool]
    asked: int
    bias: float


def draw(observers: int, rng: np.random.Generator) -> Iterator[Observer]:
    """Yield observers of all kinds in equal numbers, with thresholds anywhere in the middle four
    fifths of the levels."""
    for kind in islice(cycle(product(CHOICES, SLOPES, LAPSES)), observers):
        yield Observer(float(np.exp(rng.uniform(np.log(0.2), np.log(50)))), *kind)


def width(limits: tuple[float, float, float]) -> float:
    return float(np.log(limits[2] / limits[0]))


def observe(observer: Observer, rng: np.random.Generator) -> ObserverResult:
    """Ask every level of the grid equally often; then run a staircase until its interval is as
    narrow, and for 60 questions."""
    right = np.array([rng.binomial(REPEATS, observer.accuracy(level)) for level in GRID], float)
    grid = MODELS[observer.guess].find_interval(np.full(len(GRID), float(REPEATS)), right)
    stairs, asked, narrow, sixty = Staircase(STAIRS[observer.guess]), 0, None, None
    for number in range(1, MAX_QUESTIONS + 1):
        level = stairs.choose()
        stairs.add(level, float(rng.random() < observer.accuracy(level)))
        if (number >= 10 and number % 2 == 0 and narrow is None) or number in (
            SHORT_STAIRCASE,
            MAX_QUESTIONS,
        ):
            found = stairs.find_interval()
            sixty = found if number == SHORT_STAIRCASE else sixty
            if narrow is None and (number == MAX_QUESTIONS or width(found) <= width(grid)):
                narrow, asked = found, number
        if narrow and sixty:
            break
    assert narrow and sixty
    held = observer.holds(grid), observer.holds(narrow), observer.holds(sixty)
    return ObserverResult(observer, held, asked, float(np.log(narrow[1] / observer.threshold)))


@dataclass(frozen=True)
class QuestionPool:
    """Questions of which the share `easy` have a threshold e^`gap` times lower than the others;
    each question's accuracy is a logistic.

    Questions on one picture, `shared` of them, are easier or harder together, by a log-normal
    factor with standard deviation `spread`.
    """

    guess: float
    slope: float
    easy: float
    gap: float
    spread: float = 0.0
    shared: int = 1

    def accuracy(self, levels: Floats, eases: Floats, middle: float = 0.0) -> Floats:
        """Return the accuracy at levels (logarithms) for questions that are easier by `eases`; the
        two are broadcast."""
        span, lapse = 1 - self.guess - 0.02, 0.02
        shift = logit((TARGET - self.guess) / (1 - self.guess - lapse))
        kinds = (self.easy, -self.gap / 2), (1 - self.easy, self.gap / 2)
        away = levels - middle + eases
        parts = [share * expit(self.slope * (away - place) + shift) for share, place in kinds]
        return np.asarray(self.guess + span * sum(parts))

    def threshold(self) -> float:
        """Return the logarithm of the level at which the mean accuracy of all questions passes the
        target, for a middle of 0."""
        levels = np.linspace(-12, 12, 24001)
        eases = self.spread * ndtri((np.arange(40) + 0.5) / 40)
        mean = self.accuracy(levels[:, None], eases).mean(axis=1)
        return float(levels[np.argmax(mean >= TARGET)])


class CheckResult(NamedTuple):
    """The check of one fit: whether both intervals cover the threshold, their widths on the log
    scale, and whether the function was rejected."""

    plain: bool
    rising: bool
    width: float
    rising_width: float
    misfit: bool


def check(crowd: QuestionPool, repeats: int, rng: np.random.Generator) -> CheckResult:
    """Fit a grid with `repeats` questions at each level or, with 0, a staircase of 60 questions."""
    middle = float(rng.uniform(np.log(0.5), np.log(20)))
    truth = middle + crowd.threshold()
    if repeats:
        levels = np.log(np.tile(GRID, repeats))
        pictures = np.arange(len(levels)) // crowd.shared
        eases = crowd.spread * rng.standard_normal(pictures[-1] + 1)[pictures]
        right = (rng.random(len(levels)) < crowd.accuracy(levels, eases, middle)).astype(float)
        own = [*np.exp(levels)]
        fitted = fit_threshold(own, [*right], crowd.guess, TARGET, True, "rising", [*pictures])
    else:
        stairs = Staircase(STAIRS[crowd.guess])
        for _ in range(SHORT_STAIRCASE):
            level = stairs.choose()
            chance = crowd.accuracy(np.log(np.array(level)), np.zeros(()), middle)
            stairs.add(level, float(rng.random() < chance))
        fitted = stairs.estimate_threshold()
    fit = check_fit(fitted)
    level = float(np.exp(truth))
    return CheckResult(
        fitted.low <= level <= fitted.high,
        fit.low <= level <= fit.high,
        float(np.log(fitted.high / fitted.low)),
        float(np.log(fit.high / fit.low)),
        fit.p is not None and fit.p < 0.05,
    )


def measure_mixed_difficulty(times: int) -> Iterator[str]:
    """Yield a line for each kind of question pool: how often both intervals cover the threshold,
    and how often the function is rejected."""
    yield (
        "| questions | asked | n | holds % | rising alone % | width, rising alone | function"
        " rejected % |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|"
    cases = [
        (f"easy and hard, a factor of {np.exp(gap):.0f}", gap, 0.0, 1) for gap in (1.5, 3.0, 4.5)
    ]
    cases = [("alike", 0.0, 0.0, 1), *cases, ("five on a picture", 0.0, 0.8, 5)]
    for name, gap, spread, shared in cases:
        for repeats in (20, 60, 0) if shared == 1 else (20, 60):
            rng, kinds = (
                np.random.default_rng(0),
                cycle(product((0.0, 1 / 4, 1 / 2), (4.0, 8.0), (0.3, 0.5, 0.7))),
            )
            crowds = (QuestionPool(*kind, gap, spread, shared) for kind in islice(kinds, times))
            checked = np.array([check(crowd, repeats, rng) for crowd in crowds], float)
            plain, rising, width, wider, misfit = checked.mean(axis=0)
            how = f"grid, {repeats} a level" if repeats else f"staircase of {SHORT_STAIRCASE}"
            shares = (
                f"{100 * plain:.1f} | {100 * rising:.1f} | {width:.2f}, {wider:.2f} |"
                f" {100 * misfit:.0f}"
            )
            yield f"| {name} | {how} | {times} | {shares} |"


def line(name: str, found: list[ObserverResult]) -> str:
    shares = np.array([each.asked for each in found]) / (len(GRID) * REPEATS)
    held = " | ".join(
        f"{100 * np.mean([each.held[place] for each in found]):.1f}" for place in range(3)
    )
    bias = 100 * np.mean([each.bias for each in found])
    return (
        f"| {name} | {len(found)} | {held} | {np.median(shares):.0%}, {np.mean(shares):.0%} |"
        f" {bias:+.1f} |\n"
    )


def main() -> None:
    observers = int(sys.argv[1]) if len(sys.argv) > 1 else 960
    rng, began = np.random.default_rng(0), time.monotonic()
    found = [observe(observer, rng) for observer in draw(observers, rng)]
    say = sys.stdout.write
    say(
        f"{len(GRID) * REPEATS} questions at {len(GRID)} levels, {time.monotonic() - began:.0f} s\n"
    )
    say(
        "| observers | n | grid: holds % | staircase to its width | 60 questions | questions,"
        " median, mean | bias % |\n"
    )
    say("|---|---|---|---|---|---|---|\n")
    say(line("all", found))
    for guess, name in CHOICES.items():
        say(line(name, [each for each in found if each.observer.guess == guess]))
    for slope in SLOPES:
        say(line(f"slope {slope:g}", [each for each in found if each.observer.slope == slope]))
    for lapse in LAPSES:
        say(line(f"lapse {lapse:.0%}", [each for each in found if each.observer.lapse == lapse]))
    for text in measure_mixed_difficulty(max(18, observers // 8)):
        say(f"{text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
