"""Item response theory: simulated arms and items are recovered, and a few items predict the total
with the stated coverage, also for eight recorded models."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import yaml
from scipy.special import expit
from typer.testing import Result

from looktwice.eval.replies import get_subtask_of_idx, load_answer_key
from looktwice.eval.statistics.intervals import Floats
from looktwice.eval.statistics.paired import ValueMatrix
from looktwice.extras.adaptive.item_response import (
    fit_items,
    pick_items,
    predict_arms,
    predict_total,
)
from tests.first_day.studies import looktwice
from tests.made_run import MadeRun


def simulate(seed: int, arms: int, items: int) -> tuple[Floats, Floats, Floats]:
    """Return abilities, difficulties and simulated answers (arms, items)."""
    rng = np.random.default_rng(seed)
    abilities, difficulties = rng.normal(0, 1, arms), rng.normal(0, 1.5, items)
    right = rng.random((arms, items)) < expit(abilities[:, None] - difficulties)
    return abilities, difficulties, right.astype(float)


@pytest.mark.slow
def test_simulated_abilities_and_difficulties_are_recovered() -> None:
    abilities, difficulties, values = simulate(1, 40, 600)
    items = fit_items(values)
    assert np.abs(items.abilities - abilities).max() < 0.35
    assert items.spread == pytest.approx(1.5, rel=0.1)
    assert np.corrcoef(items.difficulties, difficulties)[0, 1] > 0.95
    outside = np.abs(items.difficulties - difficulties) > 1.96 * items.standard_errors
    assert 0.02 < outside.mean() < 0.09
    values[:, ::7] = np.nan  # unasked items have an arbitrary difficulty
    assert fit_items(values).standard_errors[0] == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize("n", [30, 150])
def test_the_interval_has_nominal_coverage_of_the_total(n: int) -> None:
    """New arms that were not used to estimate difficulties, with n of 300 items each."""
    held = []
    _, difficulties, values = simulate(2, 12, 300)
    items, rng = fit_items(values), np.random.default_rng(3)
    for ability in np.linspace(-2, 2, 160):
        right = (rng.random(300) < expit(ability - difficulties)).astype(float)
        asked = rng.permutation(300)[:n]
        answers = np.full(300, np.nan)
        answers[asked] = right[asked]
        total = predict_total(items, answers).total
        held.append(total.low <= right.mean() <= total.high)
        whole = predict_total(items, right).total
        assert whole.value == pytest.approx(right.mean())
        assert whole.high - whole.low < 1e-6
    assert 0.9 <= np.mean(held) <= 0.99


def test_items_are_picked_in_every_group_along_the_difficulty() -> None:
    _, _, values = simulate(4, 20, 120)
    items, groups = fit_items(values), ["easy", "hard"] * 60
    picked = pick_items(items, groups, 12)
    assert len({*picked.tolist()}) == 12 and [groups[place] for place in picked].count("easy") == 6
    assert abs(items.difficulties[picked].mean() - items.difficulties.mean()) < 0.15
    assert pick_items(items, groups, 120).tolist() == list(range(120))


@pytest.mark.slow
def test_eight_recorded_models_lie_in_the_intervals_from_a_tenth_of_the_items(
    shared_data: Path,
) -> None:
    """Items and difficulties come from the other seven models. The tenth is also drawn at random,
    by task or not: 19 of 20 intervals cover the total."""
    source = shared_data / "blink_replies"
    key, arms = load_answer_key(source / "val_answers.json"), {}
    for file in sorted(source.glob("*.jsonl.gz")):
        rows = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
        labels = {row["idx"]: row["official_label"] for row in rows}
        arms[file.name] = {
            (get_subtask_of_idx(idx), idx): float(labels[idx] == letter)
            for idx, letter in key.items()
        }
    values = ValueMatrix.of(arms, {})
    inside = 0
    for arm in predict_arms(values, 191):
        total = arm.prediction.total
        assert (arm.n, total.n) == (1901, 191) and total.high - total.low < 0.14
        inside += total.low <= arm.accuracy <= total.high
    assert inside >= 7
    held, rng = [], np.random.default_rng(0)
    for number, right in enumerate(values.value):
        items = fit_items(np.delete(values.value, number, axis=0))
        for _ in range(25):
            answers = np.full(1901, np.nan)
            asked = rng.permutation(1901)[:191]
            answers[asked] = right[asked]
            total = predict_total(items, answers).total
            held.append(total.low <= right.mean() <= total.high)
    assert 0.92 <= np.mean(held) <= 0.99


def test_the_command_writes_items_and_a_subset_of_them(tmp_path: Path) -> None:
    def analyse(run: Path, *words: str) -> Result:
        return looktwice("analyse", run, *words)

    made, (_, _, values) = MadeRun(tmp_path / "runs" / "made"), simulate(5, 4, 60)
    made.task("pick", ["A"] * 60)
    for number, right in enumerate(values):
        made.answers(made.point(f"arm {number}", "pick"), ["BA"[int(value)] for value in right])
    run = made.write().path
    result = analyse(run, "items", "n=12")
    assert result.exit_code == 0 and "totals from 12 items" in result.output
    table = pandas.read_csv(run / "items.csv")
    assert list(table["right"]) == pytest.approx(list(values.mean(axis=0)), abs=1e-3)
    assert table["difficulty"].corr(table["right"]) < -0.95
    subset = yaml.safe_load((run / "subset.yaml").read_text())["tasks"]["pick"]["subset"]["ids"]
    assert len({*subset}) == 12 and {*subset} <= {f"s{number}" for number in range(60)}
    for n in ("61", "0", "abc"):
        assert "1 to 60" in analyse(run, "items", f"n={n}").output
    for wrong in ("target=5", "target=abc", "scale=cubic", "direction=up"):
        output = analyse(run, "thresholds", "along=size", wrong).output
        assert f"{wrong.partition('=')[0]}: input should be" in output
    two = MadeRun(tmp_path / "runs" / "two")
    two.task("pick", ["A"] * 4)
    for name in ("one", "two"):
        two.answers(two.point(name, "pick"), ["A", "B", "A", "B"])
    few = analyse(two.write().path, "items")
    assert few.exit_code == 2 and "3 arms or more, found 2" in few.output
