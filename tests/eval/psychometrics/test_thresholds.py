"""Thresholds: recovered from simulated observers, by hand at the ends, and told of a run."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import f

from looktwice.eval.display.table import score_table
from looktwice.eval.psychometrics.functions import Psychometric, fit_threshold
from looktwice.eval.psychometrics.thresholds import Along, find_thresholds, threshold_table
from looktwice.eval.scoring.score import score_run
from tests.made_run import MadeRun

LEVELS = tuple(float(level) for level in range(2, 41, 4))


def logistic(x: float, threshold: float, slope: float, guess: float) -> float:
    shift = np.log((0.75 - guess) / (1 - 0.75))
    return float(guess + (1 - guess) / (1 + np.exp(-(slope * (x - threshold) + shift))))


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """Bounds that 19 of 20 meet with near certainty; bench/bench_thresholds.py has the figures."""
    rng, held = np.random.default_rng(1), 0
    for number in range(80):
        guess, truth, slope = (0.0, 0.25, 0.5)[number % 3], rng.uniform(8, 34), rng.uniform(0.2, 0.8)
        asked = np.full(len(LEVELS), 20.0)
        right = np.array([rng.binomial(20, logistic(level, truth, slope, guess)) for level in LEVELS], float)
        found = Psychometric(LEVELS, guess).summarize(asked, right)
        held += found.low <= truth <= found.high
    assert 70 <= held <= 80


def test_the_interval_is_that_of_the_integrated_likelihood() -> None:
    """By another way: every function's likelihood one by one, summed by threshold, against the F distribution's bar."""
    model, asked, right = Psychometric((10.0, 20.0, 30.0), 0.25), np.array([8.0, 9.0, 7.0]), np.array([2.0, 6.0, 7.0])
    by_threshold = []
    for threshold in model.thresholds:
        total = 0.0
        for slope, lapse in product(model.slopes, model.lapses):
            shift = np.log((0.5 / (1 - 0.25 - lapse)) / (1 - 0.5 / (1 - 0.25 - lapse)))
            p = 0.25 + (0.75 - lapse) / (1 + np.exp(-slope * (np.array(model.levels) - threshold) - shift))
            total += slope**-0.5 * (1 - lapse) ** 19 * np.prod(p**right * (1 - p) ** (asked - right))
        by_threshold.append(2 * np.log(total))
    low, middle, high = model.limits(asked, right)
    bar = max(by_threshold) - f.ppf(0.95, 1, 24 - 3)
    assert np.interp([low, high], model.thresholds, by_threshold) == pytest.approx([bar, bar], abs=0.01)
    assert low < middle < high and model.summarize(asked, right).value == middle


def test_few_answers_leave_a_wide_interval() -> None:
    model, right = Psychometric(LEVELS, 0.25), np.array([0.0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
    few, many = model.limits(np.ones(10), right), model.limits(np.full(10, 12.0), 12 * right)
    assert few[0] < 2 and few[2] > 15 and few[2] - few[0] > 3 * (many[2] - many[0])
    assert model.limits(np.zeros(10), np.zeros(10))[::2] == (model.thresholds[0], model.thresholds[-1])


@pytest.mark.parametrize("direction", ["rising", "falling"])
def test_many_answers_pin_the_threshold_and_its_direction(direction: str) -> None:
    sign = 1 if direction == "rising" else -1
    levels = [level for level in LEVELS for _ in range(200)]
    rng = np.random.default_rng(0)
    values = [float(rng.random() < logistic(sign * level, sign * 20, 0.5, 0.25)) for level in levels]
    found = fit_threshold(levels, values, 0.25)
    assert found.direction == direction and not found.outside
    assert found.low < 20 < found.high and found.high - found.low < 2
    assert found.slope == pytest.approx(0.5, rel=0.3)
    assert found.asked == (200,) * len(LEVELS)


def test_a_logarithmic_scale_and_what_lies_outside() -> None:
    levels = [2.0**k for k in range(7) for _ in range(60)]
    steps = fit_threshold(levels, [float(level >= 8) for level in levels], 0.0, log=True)
    assert 4 < steps.value < 8 and steps.low > 3.9 and steps.high < 8.1
    never = fit_threshold(levels, [0.0] * len(levels), 0.0, log=True, direction="rising")
    always = fit_threshold(levels, [1.0] * len(levels), 0.0, log=True, direction="rising")
    assert (never.outside, always.outside) == ("above", "below")


@pytest.mark.parametrize(
    ("levels", "guess", "target", "log", "said"),
    [
        ([3.0], 0.25, 0.75, False, "two or more levels"),
        ([0.0, 3.0], 0.25, 0.75, True, "scale: linear"),
        ([1.0, 3.0], 0.75, 0.75, False, "above that of guessing"),
        ([1.0, 3.0], 0.25, 0.99, False, "at most 0.86"),
    ],
)
def test_what_cannot_be_fitted_is_said(levels: list[float], guess: float, target: float, log: bool, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fit_threshold(levels, [1.0] * len(levels), guess, target, log)


def test_a_run_tells_the_thresholds_of_its_arms(tmp_path: Path) -> None:
    made, sizes = MadeRun(tmp_path / "run"), [10, 20, 30, 40] * 10
    made.task("t", ["A"] * 40, choices=4, meta=[{"size": size, "name": "x"} for size in sizes])
    made.answers(made.point("sees", "t"), ["A" if size >= 30 else "BCDA"[n % 4] for n, size in enumerate(sizes)])
    made.answers(made.point("blind", "t"), ["BCDA"[n // 4 % 4] for n in range(40)])
    folder = made.write()
    sees, blind = find_thresholds(score_run(folder), Along("size"))
    assert sees.found is not None and 20 < sees.found.value < 30 and sees.guess == 0.25
    assert blind.found is not None and blind.found.outside
    table = threshold_table(score_table([folder.path]).scores, Along("size"))
    assert table.rows[1][2] in ("above all levels", "below all levels") and table.rows[0][9:11] == ("40", "4")
    (high, _) = find_thresholds(score_run(folder), Along("size", target=0.2))
    assert high.found is None and high.why.startswith("none: the target is an accuracy above")
    assert not find_thresholds(score_run(folder), Along("name"))
    assert not find_thresholds(score_run(folder))
