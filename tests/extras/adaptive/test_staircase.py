"""A staircase asks near the threshold, with far fewer questions than a grid."""

from __future__ import annotations

import numpy as np
import pytest

from looktwice.extras.adaptive.functions import PsychometricGrid
from looktwice.extras.adaptive.runs import Staircase

MODEL = PsychometricGrid(
    tuple(float(level) for level in np.geomspace(1, 100, 25)), 0.25, is_log=True
)


def climb(threshold: float, questions: int, rng: np.random.Generator) -> Staircase:
    stairs = Staircase(MODEL)
    for _ in range(questions):
        level = stairs.choose()
        right = 0.25 + 0.75 / (1 + (threshold / level) ** 6 / 2)
        stairs.add(level, float(rng.random() < right))
    return stairs


def test_it_asks_near_the_threshold_and_finds_it() -> None:
    rng, held = np.random.default_rng(0), 0
    for threshold in (3.0, 4.0, 8.0, 12.0, 20.0, 40.0):
        stairs = climb(threshold, 50, rng)
        found = stairs.estimate_threshold()
        held += found.low <= threshold <= found.high
        near = [
            n
            for level, n in zip(MODEL.levels, stairs.answer_counts, strict=True)
            if threshold / 3 < level < threshold * 3
        ]
        assert sum(near) > 35 and found.high / found.low < 3.5
    assert held >= 5


def test_with_two_choices_the_threshold_is_found_without_the_slope() -> None:
    model, rng = PsychometricGrid(MODEL.levels, 0.5, is_log=True), np.random.default_rng(3)
    wide, held = list[float](), 0
    for number in range(30):
        stairs, slope = Staircase(model), (3, 6, 12)[number % 3]
        threshold = float(rng.uniform(3, 30))
        for _ in range(60):
            level = stairs.choose()
            right = 0.5 + 0.48 / (1 + (threshold / level) ** slope * 0.92)
            stairs.add(level, float(rng.random() < right))
        low, middle, high = stairs.find_interval()
        assert low <= middle <= high
        held += low <= threshold <= high
        wide.append(high / low)
    assert held >= 27 and np.median(wide) < 2.3


def test_only_remaining_questions_are_asked() -> None:
    stairs = Staircase(MODEL)
    assert stairs.choose([MODEL.levels[3]]) == MODEL.levels[3]
    with pytest.raises(ValueError, match="no level is left"):
        stairs.choose([])


def test_the_coarse_grid_follows_the_answers() -> None:
    down, up, level = Staircase(MODEL), Staircase(MODEL), MODEL.levels[12]
    assert (down.choose(), up.choose([1.0, level])) == (100, 1)
    for stairs in (down, up):
        stairs.add(MODEL.levels[0], 0.0)
        stairs.add(MODEL.levels[-1], 1.0)
    for _ in range(12):
        down.add(level, 1.0)
        up.add(level, 0.0)
    assert down.choose() < level < up.choose()
    assert up.estimate_threshold().value > level > down.estimate_threshold().low
