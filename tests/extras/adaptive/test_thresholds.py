"""Thresholds: recovered from simulated observers, computed by hand at the extremes, and reported
for a run; and two crossed control parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.stats import f

from bench.bench_thresholds import QuestionPool, check
from looktwice.eval import score_table, write_report
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import RunScores
from looktwice.extras.adaptive.fit_checks import _fit_rising_accuracies, check_fit
from looktwice.extras.adaptive.functions import PsychometricGrid, fit_threshold
from looktwice.extras.adaptive.thresholds import (
    ThresholdSettings,
    chart_thresholds,
    find_thresholds,
    make_crossed_grids,
    make_crossed_tables,
    tabulate_thresholds,
)
from tests import tables
from tests.made_run import MadeRun

LEVELS = tuple(float(level) for level in range(2, 41, 4))


def logistic(x: float, threshold: float, slope: float, guess: float) -> float:
    shift = np.log((0.75 - guess) / (1 - 0.75))
    return float(guess + (1 - guess) / (1 + np.exp(-(slope * (x - threshold) + shift))))


def toss(chances: Sequence[float], seed: int) -> list[float]:
    """Draw right or wrong with each of these probabilities."""
    return [float(drawn) for drawn in np.random.default_rng(seed).random(len(chances)) < chances]


def test_intervals_have_about_nominal_coverage() -> None:
    """Bounds that 95 % coverage almost certainly meets; bench/bench_thresholds.py has numbers."""
    rng, held = np.random.default_rng(1), 0
    for number in range(80):
        guess, truth = (0.0, 0.25, 0.5)[number % 3], rng.uniform(8, 34)
        slope = rng.uniform(0.2, 0.8)
        asked = np.full(len(LEVELS), 20.0)
        right = np.array(
            [rng.binomial(20, logistic(level, truth, slope, guess)) for level in LEVELS], float
        )
        fit = PsychometricGrid(LEVELS, guess).estimate_threshold(asked, right)
        held += fit.low <= truth <= fit.high
    assert 70 <= held <= 80


def test_the_interval_is_that_of_the_integrated_likelihood() -> None:
    """Computed another way: the likelihood of every function, summed by threshold and compared with
    the F distribution."""
    model = PsychometricGrid((10.0, 20.0, 30.0), 0.25)
    asked, right = np.array([8.0, 9.0, 7.0]), np.array([2.0, 6.0, 7.0])
    by_threshold = []
    for threshold in model.thresholds:
        total = 0.0
        for slope, lapse in product(model.slopes, model.lapse_rates):
            half = 0.5 / (1 - 0.25 - lapse)
            at = slope * (np.array(model.levels) - threshold) + np.log(half / (1 - half))
            p = 0.25 + (0.75 - lapse) / (1 + np.exp(-at))
            seen = np.prod(p**right * (1 - p) ** (asked - right))
            total += slope**-0.5 * (1 - lapse) ** 19 * seen
        by_threshold.append(2 * np.log(total))
    low, middle, high = model.find_interval(asked, right)
    ends = np.interp([low, high], model.thresholds, by_threshold)
    bar = max(by_threshold) - f.ppf(0.95, 1, 24 - 3)
    assert ends == pytest.approx([bar, bar], abs=0.01)
    assert low < middle < high and model.estimate_threshold(asked, right).value == middle


def test_few_answers_leave_a_wide_interval() -> None:
    model, right = PsychometricGrid(LEVELS, 0.25), np.array([0.0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
    few, many = (
        model.find_interval(np.ones(10), right),
        model.find_interval(np.full(10, 12.0), 12 * right),
    )
    assert few[0] < 2 and few[2] > 15 and few[2] - few[0] > 3 * (many[2] - many[0])
    none, ends = model.find_interval(np.zeros(10), np.zeros(10)), model.thresholds
    assert (none[0], none[2]) == (ends[0], ends[-1])


@pytest.mark.parametrize("direction", ["rising", "falling"])
def test_many_answers_determine_the_threshold_and_its_direction(direction: str) -> None:
    sign = 1 if direction == "rising" else -1
    levels = [level for level in LEVELS for _ in range(200)]
    chances = [logistic(sign * level, sign * 20, 0.5, 0.25) for level in levels]
    fit = fit_threshold(levels, [float(x) for x in toss(chances, 0)], 0.25)
    assert fit.model.direction == direction and not fit.side
    assert fit.low < 20 < fit.high and fit.high - fit.low < 2
    assert fit.slope == pytest.approx(0.5, rel=0.3)
    assert fit.answer_counts == (200,) * len(LEVELS)


def test_a_logarithmic_scale_and_thresholds_outside_its_range() -> None:
    levels = [2.0**k for k in range(7) for _ in range(60)]
    steps = fit_threshold(levels, [float(level >= 8) for level in levels], 0.0, log=True)
    assert 4 < steps.value < 8 and steps.low > 3.9 and steps.high < 8.1
    never = fit_threshold(levels, [0.0] * len(levels), 0.0, log=True, direction="rising")
    always = fit_threshold(levels, [1.0] * len(levels), 0.0, log=True, direction="rising")
    assert (never.side, always.side) == ("above", "below")


@tables.table
def test_data_that_cannot_be_fitted_is_reported(
    levels: list[float], guess: float, target: float, log: bool, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        fit_threshold(levels, [1.0] * len(levels), guess, target, log)


def test_a_run_reports_the_thresholds_of_its_arms(tmp_path: Path) -> None:
    made, sizes = MadeRun(tmp_path / "run"), [10, 20, 30, 40] * 10
    made.task("t", ["A"] * 40, choices=4, meta=[{"size": size, "name": "x"} for size in sizes])

    def sees(name: str, is_seen: Callable[[int], bool]) -> None:
        said = ["A" if is_seen(size) else "BCDA"[n % 4] for n, size in enumerate(sizes)]
        made.answers(made.point(name, "t"), said)

    sees("sees", lambda size: size >= 30)
    made.answers(made.point("blind", "t"), ["BCDA"[n // 4 % 4] for n in range(40)])
    folder = made.write()
    seen, blind = find_thresholds(score_run(folder), ThresholdSettings("size"))
    assert seen.threshold is not None and 20 < seen.threshold.value < 30
    assert seen.threshold.model.guess == 0.25
    assert blind.text == "above all levels" and blind.remarks == "as others"
    _, rising = find_thresholds(score_run(folder), ThresholdSettings("size", direction="rising"))
    assert rising.threshold == blind.threshold and not rising.remarks
    table = tabulate_thresholds(score_table([folder.path]).scores, ThresholdSettings("size"))
    assert table.rows[0][9] == "40/4" and table.rows[1][-1] == "as others"
    sees("falls", lambda size: size <= 20)
    _, undecided, _ = find_thresholds(score_run(made.write()), ThresholdSettings("size"))
    assert undecided.threshold is None and "set direction" in undecided.reason, (
        "the others disagree"
    )
    high, *_ = find_thresholds(score_run(folder), ThresholdSettings("size", target=0.2))
    assert high.threshold is None and "target" in high.reason
    assert not find_thresholds(score_run(folder), ThresholdSettings("name"))
    assert not find_thresholds(score_run(folder))


@pytest.mark.parametrize("right", [0, 6, 20])
def test_an_undecided_direction_is_left_empty(right: int) -> None:
    levels = [level for level in LEVELS for _ in range(20)]
    values = [float(n < right) for _ in LEVELS for n in range(20)]
    with pytest.raises(ValueError, match="set direction"):
        fit_threshold(levels, values, 0.25)
    rising = fit_threshold(levels, values, 0.25, direction="rising")
    assert rising.side == ("below" if right == 20 else "above")


def write_config(made: MadeRun, config: Mapping[str, Any]) -> RunScores:
    folder = made.write()
    (folder.path / "run.yaml").write_text(yaml.safe_dump({"config": config}))
    return score_run(folder)


def test_falling_accuracy_is_reported_wherever_its_threshold_is(tmp_path: Path) -> None:
    made, sizes = MadeRun(tmp_path / "run"), [10, 20, 30, 40] * 10
    made.task("t", ["A"] * 40, choices=4, meta=[{"size": size} for size in sizes])
    made.answers(made.point("one", "t"), ["A" if size <= 20 else "B" for size in sizes])
    run = write_config(made, {"thresholds": {"along": "size"}})
    (arm,) = find_thresholds(run)
    assert arm.text.endswith(", falling") and arm.text[:2].isdigit()
    (chart,) = chart_thresholds(run, "t")
    assert [*chart.lines] == ["one", "one, fitted, falling"]


@pytest.mark.parametrize("said", ["rising", "falling"])
def test_a_staircase_is_fitted_in_the_direction_it_used(tmp_path: Path, said: str) -> None:
    """Its answers fall with the level, and alone would be fitted as falling."""
    made, sizes = MadeRun(tmp_path / "run"), [10, 20, 30, 40] * 5
    made.task("t", ["A"] * 20, choices=4, meta=[{"size": size} for size in sizes])
    made.answers(made.point("one", "t"), ["A" if size == 10 else "B" for size in sizes])
    along = {"along": "size"} | ({"direction": said} if said == "falling" else {})
    run = write_config(made, {"thresholds": along, "choose": {"by": "staircase"}})
    for arm in (*find_thresholds(run), *find_thresholds(run, ThresholdSettings("size"))):
        assert arm.threshold is not None and arm.threshold.model.direction == said
    (asked,) = find_thresholds(run, ThresholdSettings("size", direction="falling"))
    assert asked.threshold is not None and asked.threshold.model.direction == "falling"


def test_monotone_fits_by_hand() -> None:
    """With 1, 0 and 2 of 2 right, the fit merges the first two levels; a fit that passes 0.9 before
    them is at least 0.9 there."""
    asked, right = np.full(3, 2.0), np.array([[1.0, 0.0, 2.0], [0.0, 2.0, 1.0]])
    assert _fit_rising_accuracies(asked, right, 0.9, None) == pytest.approx(
        np.array([[0.25, 0.25, 1], [0, 0.75, 0.75]])
    )
    assert _fit_rising_accuracies(asked, right, 0.9, 0)[0] == pytest.approx([0.9, 0.9, 1])
    assert _fit_rising_accuracies(asked, right, 0.5, 2)[1] == pytest.approx([0, 0.5, 0.5])


@pytest.mark.slow
def test_a_misfit_is_reported_and_the_interval_without_a_curve_covers_the_threshold() -> None:
    """Half of the questions are easy: the logistic intervals cover the threshold in about half of
    such runs."""
    rng, kinds = np.random.default_rng(2), product((0.0, 0.25), (0.3, 0.5), range(2))
    found = [check(QuestionPool(guess, 8.0, easy, 3.5), 40, rng) for guess, easy, _ in kinds]
    plain, rising, *_, misfit = np.array(found, float).mean(axis=0)
    assert plain < 0.75 and rising > 0.85 and misfit > 0.7
    alike = [check(QuestionPool(0.25, 8.0, 0.5, 0.0), 20, rng) for _ in range(12)]
    _, held, *_, misfit = np.array(alike, float).mean(axis=0)
    assert held > 0.85 and misfit < 0.3


def test_a_falling_curve_is_checked_as_its_mirror_image() -> None:
    levels = [level for level in LEVELS for _ in range(30)]
    values = toss([logistic(level, 20, 0.5, 0.25) for level in levels], 4)
    rising = check_fit(fit_threshold(levels, values, 0.25))
    falling = check_fit(fit_threshold([42 - level for level in levels], values, 0.25))
    assert (falling.high, falling.low) == pytest.approx((42 - rising.low, 42 - rising.high))
    assert rising.p is not None and rising.low < 20 < rising.high


def test_repeated_answers_count_once() -> None:
    levels = [level for level in LEVELS for _ in range(25)]
    values, own = toss([logistic(level, 18, 0.4, 0.25) for level in levels], 5), [*range(250)]
    once = fit_threshold(levels, values, 0.25)
    doubled = fit_threshold(levels * 2, values * 2, 0.25, clusters=own * 2)
    assert doubled.dispersion == pytest.approx(2, abs=0.5) and once.dispersion == 1
    naive, width = fit_threshold(levels * 2, values * 2, 0.25), doubled.high - doubled.low
    assert width == pytest.approx(once.high - once.low, rel=0.2)
    assert width > 1.2 * (naive.high - naive.low)
    alone = fit_threshold(levels, values, 0.25, clusters=own)
    assert (alone.low, alone.high) == (once.low, once.high)


def test_draws_show_whether_questions_are_equally_hard(tmp_path: Path) -> None:
    """Four draws: one arm always repeats itself, the other tosses a coin."""
    made, rng = MadeRun(tmp_path / "run"), np.random.default_rng(0)
    made.task("t", ["A"] * 40, choices=2, meta=[{"size": 1 + number % 4} for number in range(40)])
    stubborn, coin = (made.point(name, "t", draws=4) for name in ("stubborn", "coin"))
    for draw in range(4):
        made.answers(stubborn, ["AB"[number % 3 % 2] for number in range(40)], draw=draw)
        made.answers(coin, ["AB"[number] for number in rng.integers(0, 2, 40)], draw=draw)
    run, along = score_run(made.write()), ThresholdSettings("size", direction="rising")
    firm, free = find_thresholds(run, along)
    assert firm.equal_difficulty_p is not None and firm.equal_difficulty_p < 0.01
    assert free.equal_difficulty_p is not None and free.equal_difficulty_p > 0.05
    first, second = tabulate_thresholds([run], along).rows
    assert "unlike" in first[-1] and "unlike" not in second[-1]


def test_the_monotone_interval_covers_every_threshold_that_the_answers_allow() -> None:
    """Of 12 answers, 8 and 10 are right at two levels: the target of 0.75 may be passed before or
    after each."""
    levels = [level for level in (10.0, 20.0, 30.0, 40.0) for _ in range(12)]
    values = [float(n < right) for right in (0, 8, 10, 12) for n in range(12)]
    fit = check_fit(fit_threshold(levels, values))
    assert (fit.low, fit.high) == (10, 40)


def test_two_fields_are_fully_crossed(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run")
    pairs = [(size, turn) for size in (10, 9) for turn in ("a", "b") for _ in range(2)]
    made.task("t", ["A"] * 8, meta=[{"size": size, "turn": turn} for size, turn in pairs])
    made.answers(made.point("one", "t"), ["A", "A", "A", "B", "B", "B", "A", "A"])
    made.write()
    table = score_table([tmp_path / "run"], by=["size,turn", "turn"])
    rows = table.where(metric="accuracy", contestant="one").rows
    slices = {row.slice: row.value for row in rows if row.slice}
    expected = {"size=10, turn=b": 0.5, "size=9, turn=a": 0, "turn=a": 0.5}
    assert {name: slices[name] for name in expected} == expected
    (grid,) = make_crossed_grids(table.scores, table.by)
    cells = [(9.0, "a", 0.0, 2), (9.0, "b", 1.0, 2), (10.0, "a", 1.0, 2), (10.0, "b", 0.5, 2)]
    assert grid.cells == cells
    ((title, shown),) = make_crossed_tables(table.scores, table.by)
    assert title == "one, t: % by size and turn" and shown.header == ("size \\ turn", "a", "b")
    assert shown.rows == [("9", "0.0\n2", "100.0\n2"), ("10", "100.0\n2", "50.0\n2")]
    page = write_report(table, tmp_path / "out")
    for file in (page, tmp_path / "out/report.md"):
        assert "% by size and turn" in file.read_text()
    with pytest.raises(RunError, match=r"angle: .* size, turn"):
        score_table([tmp_path / "run"], by=["size,angle"])
