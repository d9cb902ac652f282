"""The effect of each factor of a sweep: what it averages over, and what it excludes."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval.analysis.factors import LevelEffect, find_sweep_effects, sweep_table
from looktwice.eval.display.table import score_table
from looktwice.eval.scoring.labels import ALL_TASKS
from looktwice.eval.scoring.score import score_run
from looktwice.eval.statistics.intervals import bootstrap_mean
from tests.made_run import MadeRun, join_attributes, lines_of

SWEEP: dict[str, list[Any]] = {
    "stages.mark": [{"radius": 5}, {"radius": 10}, None],
    "stages.think": [{}, None],
}
MARKS: dict[str, dict[str, Any]] = {
    "5": {"stages.mark.radius": 5},
    "10": {"stages.mark.radius": 10},
    "none": {"stages.mark": None},
}


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    made = MadeRun(tmp_path / "run")
    made.path.mkdir()
    (made.path / "run.yaml").write_text(yaml.safe_dump({"config": {"sweep": SWEEP}}))
    return made


def ask(made: MadeRun, task: str = "t", **answers: str) -> None:
    """Add six arms on one task: `m10_think="AB-"` gives the answers of one, the others say AAA."""
    for (mark, changes), think in product(MARKS.items(), (True, False)):
        point = made.point(
            "plain", task, changes=changes | ({} if think else {"stages.think": None})
        )
        name = f"m{mark}_{'think' if think else 'bare'}"
        said = answers.get(name, "A" * max(map(len, answers.values()), default=4))
        made.answers(point, [None if answer == "-" else answer for answer in said])


def effects(made: MadeRun, task: str) -> dict[tuple[str, str], LevelEffect]:
    return {
        (e.factor, e.level): e
        for e in find_sweep_effects(score_run(made.write()))
        if e.task == task
    }


def test_an_effect_is_the_mean_over_samples_and_the_other_factor_s_levels(made: MadeRun) -> None:
    """By hand: the gaps are -1, -1/2, 0, 0."""
    made.task("t", "AAAA")
    ask(made, m10_think="BBAA", m10_bare="BAAA")
    changes = effects(made, "t")
    names = (("mark", "radius=10"), ("mark", "none"), ("think", "none"))
    ten, none, bare = (changes[name] for name in names)
    assert (ten.against, ten.effect.value, ten.effect.n) == ("radius=5", -0.375, 4)
    wanted = bootstrap_mean([-1.0, -0.5, 0.0, 0.0], floor=-1.0)
    # of the four signs of two gaps that move, two are as far from 0
    assert join_attributes(ten.effect, "low high p") == (wanted.low, wanted.high, 0.5)
    assert join_attributes(none.effect, "value p") == (0.0, 1.0)
    assert none.effect.low < -0.2 < 0.2 < none.effect.high
    # s1 is right without the thought where the radius is 10, which is one of three combinations
    assert bare.against == "as it is" and bare.effect.value == pytest.approx(1 / 12)


def test_a_sample_missing_from_one_combination_is_excluded(made: MadeRun) -> None:
    made.task("t", ["A"] * 4)
    ask(made, m10_think="BB--", m10_bare="BAAA")
    made.record("p4", "s0", error="boom")
    changes = effects(made, "t")
    assert join_attributes(changes["mark", "radius=10"].effect, "value n") == (-0.75, 2)
    assert changes["mark", "none"].effect.n == 3  # s0 failed there
    assert changes["think", "none"].effect.n == 1


def test_an_interaction_is_the_effect_beyond_each_factor_alone(made: MadeRun) -> None:
    """By hand: radius 10 costs s0 and s1 with the thought, only s0 without it."""
    made.task("t", ["A"] * 4)
    ask(made, m10_think="BBAA", m10_bare="BAAA")
    line = effects(made, "t")["mark x think", "radius=10 x none"]
    assert (line.against, line.effect.value, line.effect.n) == ("radius=5 x as it is", 0.25, 4)
    assert line.p_holm == line.p_bh == 1.0
    assert effects(made, "t")["mark x think", "none x none"].effect.value == 0.0


def test_factors_with_a_significant_interaction_have_no_mean_over_the_other(made: MadeRun) -> None:
    """Radius 10 costs 15 of 20 samples with the thought and one without it."""
    made.task("t", ["A"] * 20)
    ask(made, m10_think="B" * 15 + "A" * 5, m10_bare="A" * 19 + "B")
    rows = lines_of(sweep_table(score_table(made.write().path)))
    told = {(row["factor"], row["level"], row["where"]): row["effect"].split()[0] for row in rows}
    assert told == {
        ("mark", "radius=10", "think as it is"): "\u221275.0",
        ("mark", "radius=10", "think none"): "\u22125.0",
        ("mark", "none", ""): "+0.0",
        ("think", "none", "mark radius=5"): "+0.0",
        ("think", "none", "mark radius=10"): "+70.0",
        ("mark x think", "radius=10 x none", ""): "+70.0",
        ("mark x think", "none x none", ""): "+0.0",
    }
    parts = [row for row in rows if row["where"]]
    assert {row["p"] for row in parts} == {""} and all("to" in row["effect"] for row in parts)


def test_samples_of_one_group_are_one_unit(made: MadeRun) -> None:
    made.task("t", ["A"] * 4, meta=[{"group": "g"}, {"group": "g"}, {"group": "h"}, {"group": "h"}])
    ask(made, m10_think="BBAA", m10_bare="BBAA")
    line = effects(made, "t")["mark", "radius=10"]
    assert join_attributes(line.effect, "value n clusters p") == (-0.5, 4, 2, 1.0)


def test_tasks_are_pooled_and_the_terminal_shows_only_the_pool(made: MadeRun) -> None:
    made.task("t", "AAAA")
    made.task("u", "AA")
    ask(made, m10_think="BBAA", m10_bare="BBAA")
    ask(made, "u", m10_think="BB", m10_bare="BB")
    changes = effects(made, ALL_TASKS)["mark", "radius=10"].effect
    assert join_attributes(changes, "value n") == (pytest.approx(-4 / 6), 6)
    table = score_table(made.path)
    assert {line[1] for line in sweep_table(table).rows} == {"t", "u", ALL_TASKS}
    assert {line[1] for line in sweep_table(table, all_lines=False).rows} == {ALL_TASKS}


def test_single_changes_and_contestants_without_the_factors_are_left_out(made: MadeRun) -> None:
    made.task("t", "AAAA")
    ask(made)
    single = {"stages.mark.radius": 5, "model": "other"}
    made.answers(made.point("plain", "t", changes=single), "BBBB")
    made.answers(made.point("chance", "t"), "BBBB")
    changes = find_sweep_effects(score_run(made.write()))
    assert {(line.contestant, line.effect.value) for line in changes} == {("plain", 0.0)}
    one = yaml.safe_dump({"config": {"sweep": {"stages.mark": SWEEP["stages.mark"]}}})
    (made.path / "run.yaml").write_text(one)
    assert find_sweep_effects(score_run(made.write())) == []


def test_tasks_with_opposite_effects_are_shown_with_their_pool(made: MadeRun) -> None:
    """Radius 10 gains 16 of 20 samples on one task and loses 16 on the other."""
    for task, key in (("t", "A"), ("u", "B")):
        made.task(task, [key] * 20)
        ask(made, task, m10_think="B" * 16 + "A" * 4, m10_bare="B" * 16 + "A" * 4)
    lines = lines_of(sweep_table(score_table(made.write().path), all_lines=False))
    told = {(line["task"], line["level"]): line["effect"].split()[0] for line in lines}
    ten = {("t", "radius=10"): "\u221280.0", ("u", "radius=10"): "+80.0"}
    assert told == ten | {(ALL_TASKS, "radius=10"): "+0.0", (ALL_TASKS, "none"): "+0.0"}


@pytest.mark.parametrize(
    ("n", "pooled", "crossed"), [(2, ["+0.0"], 0), (3, ["+0.0"], 1), (8, [], 1)]
)
def test_pooled_and_crossed_effects(made: MadeRun, n: int, pooled: list[str], crossed: int) -> None:
    """Radius 10 loses n samples with the thought and gains n others without it."""
    made.task("t", ["A"] * 20 + ["B"] * 20)
    lost, gained = "B" * n + "A" * (40 - n), "A" * 20 + "B" * n + "A" * (20 - n)
    names = dict.fromkeys(("m5_think", "m5_bare", "mnone_think", "mnone_bare"), "A" * 40)
    ask(made, m10_think=lost, m10_bare=gained, **names)
    lines = lines_of(sweep_table(score_table(made.write().path), all_lines=False))
    of_ten = [line for line in lines if line["level"].startswith("radius=10")]
    alone = [line for line in of_ten if line["factor"] == "mark" and not line.get("where")]
    assert [line["effect"].split()[0] for line in alone] == pooled
    assert [line["factor"] for line in of_ten].count("mark x think") == crossed
