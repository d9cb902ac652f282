"""Tables: fewer draws, effects of single changes, older arms, data frames."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval import evaluate, write_report
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.records import RunError
from looktwice.eval.results import Results
from looktwice.eval.scoring.notes import list_notes
from tests.first_day.test_scoring import ASK, MODEL, SAY, Greys, LastLetter
from tests.made_run import MadeRun


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    made = MadeRun(tmp_path / "run")
    made.task("t", ["A"] * 4)
    return made


def facts(made: MadeRun, **more: Any) -> None:
    """Write run.yaml with all points as the present plan."""
    whole = {
        "arms": [point.id for point in made.points],
        "samples": {"id-t": 4},
        "planned": {"id-t": 4},
    } | more
    made.write()
    (made.path / "run.yaml").write_text(yaml.safe_dump(whole))


def accuracy(table: Table) -> dict[str, float | None]:
    return {
        row.contestant: row.value for row in table.where(metric="accuracy", task="t") if row.point
    }


def test_the_table_shows_the_reduced_number_of_draws(made: MadeRun) -> None:
    plain = made.point("plain", "t", draws=1)
    for draw, said in enumerate(("AAAA", "BBBB", "BBBB")):
        made.answers(plain, said, draw)
    facts(made)
    table, every = score_table(made.path), score_table(made.path, all_arms=True)
    assert (accuracy(table), table.rows[0].right) == ({"plain": 1.0}, 4)
    assert "not shown: 8 answers of an earlier plan that had more draws; `--all`" in table.notes[-1]
    assert accuracy(every)["plain"] == pytest.approx(1 / 3)
    assert every.notes == ()


def test_a_limit_after_a_complete_run_excludes_nothing(made: MadeRun) -> None:
    made.answers(made.point("plain", "t"), "AAAA")
    facts(made, limit=2, planned={"id-t": 2})
    assert score_table(made.path).notes == ()
    made.answers(made.point("new", "t"), "AA")
    facts(made, limit=2, planned={"id-t": 2})
    assert score_table(made.path).notes == ("partly asked (limit 2): t: 2 to 4 of 4 samples",)


SWEEP = {"stages.mark.color": ["red", "white"]}
EACH: list[dict[str, Any]] = [
    {"stages.think": None},
    {"stages.mark.color": "gray", "stages.mark.radius": 20},
]


def ask_each(made: MadeRun, sweep: dict[str, Any]) -> None:
    """`plain` is always right, and for half the samples without its thought."""
    made.answers(made.point("unmarked", "t", baseline=True), "BBBB")
    made.answers(made.point("unmarked", "t", baseline=True, changes={"stages.think": None}), "ABBB")
    for colour in sweep.get("stages.mark.color", [None]):
        mark = {"stages.mark.color": colour} if colour else {}
        made.answers(made.point("plain", "t", changes=mark), "AAAA")
        made.answers(
            made.point("plain", "t", changes=mark | {"stages.think": None}),
            "AABB" if mark else "AAAB",
        )
    made.answers(made.point("plain", "t", changes=EACH[1]), "BBBB")
    facts(made, config={"sweep": sweep, "each": EACH})


def lines(path: Path) -> list[list[str]]:
    return [line.split(",") for line in (path / "effects.csv").read_text().splitlines()[1:]]


@pytest.mark.parametrize(("sweep", "effect"), [(SWEEP, "-0.5"), ({}, "-0.25")])
def test_an_each_change_is_compared_with_the_same_arm_without_it(
    made: MadeRun, sweep: dict[str, Any], effect: str
) -> None:
    ask_each(made, sweep)
    write_report(score_table(made.path), made.path)
    found = {
        (who, factor, level, against): value
        for _, who, _, factor, level, against, value, *_ in lines(made.path)
    }
    assert found["plain", "think", "none", "unchanged"] == effect
    assert found["unmarked", "think", "none", "unchanged"] == "0.25"
    assert found["plain", "mark.color + mark.radius", "gray + 20", "unchanged"] == "-1"
    assert (("plain", "mark.color", "white", "red") in found) is bool(sweep)
    text = (made.path / "report.md").read_text()
    assert ("sweep: the effect" in text) is bool(sweep) and "each: the effect" in text


def test_a_file_without_each_does_not_mention_it(made: MadeRun) -> None:
    for radius in (5, 10):
        for colour in ("red", "white"):
            changes = {"stages.mark.radius": radius, "stages.mark.color": colour}
            made.answers(made.point("plain", "t", changes=changes), "AAAA")
    facts(made, config={"sweep": {"stages.mark.radius": [5, 10], **SWEEP}})
    write_report([made.path], made.path)
    text = (made.path / "report.md").read_text()
    assert "sweep: the effect" in text and "each: " not in text
    facts(made, config={})
    write_report([made.path], made.path)
    assert not (made.path / "effects.csv").exists()


def test_older_arms_are_compared_with_the_present_baseline(made: MadeRun) -> None:
    old = made.point("plain", "t", baseline=True, spec={"model": "old"})
    now = made.point("plain", "t", baseline=True, spec={"model": "new"})
    other = made.point("other", "t")
    for point, letters in ((old, "BBBB"), (now, "AAAA"), (other, "AAAB")):
        made.answers(point, letters)
    facts(made, arms=[now, other])
    table = score_table(made.path, all_arms=True)
    rows = {row.point: row for row in table.where(metric="accuracy", task="t")}
    assert (rows[old].delta, rows[now].delta, rows[other].delta) == (-1.0, None, -0.25)
    assert table.notes == (
        "delta: against plain",
        "also shown, and included in Holm's correction: 1 arm of an earlier plan,"
        " plain {model=old} on t",
    )


def test_results_distinguish_an_earlier_arm_from_a_wrong_name(made: MadeRun) -> None:
    old, now = made.point("unmarked", "t"), made.point("ring", "t")
    for point, replies in ((old, "BBBB"), (now, "AAAA")):
        made.answers(point, replies)
    facts(made, arms=[now])
    results = Results.open(made.path)
    with pytest.raises(RunError, match=r"'unmarked'; .*all_arms=True"):
        results.flips("unmarked", "ring")
    with pytest.raises(RunError, match=r"'unasked'; .* ring$"):
        results.flips("ring", "unasked")
    with pytest.raises(RunError, match="nobody"):
        Results.open(made.path, judge="nobody")
    results = Results.open(made.path, all_arms=True)
    assert len(results.flips("unmarked", "ring").gained) == 4


def test_the_table_names_the_baseline_of_its_differences(made: MadeRun) -> None:
    ask_each(made, SWEEP)
    (line,) = (
        line for line in list_notes(score_table(made.path).scores[0]) if line.startswith("delta")
    )
    nearest = "the nearest setting among unmarked, unmarked [no think]"
    assert line == f"delta: against {nearest}; its own arms against unmarked"
    rows = {
        row.contestant: row for row in score_table(made.path).where(metric="accuracy", task="t")
    }
    assert rows["plain [mark.color=red]"].baseline == "unmarked"
    assert rows["plain [mark.color=red, no think]"].baseline == "unmarked [no think]"
    assert line in " ".join(repr(score_table(made.path)).split())
    write_report([made.path], made.path)
    assert line in (made.path / "report.md").read_text().replace("\\", "")


def test_a_data_frame_holds_the_settings_and_equals_the_file(made: MadeRun) -> None:
    import pandas

    mark = {"use": "prompting.markers.Circles", "radius": 10}
    spec = {"stages": {"mark": mark, "think": {"use": "x.Thought"}}}
    for changes in ({}, {"stages.mark.radius": 5}, {"stages.think": None}):
        made.answers(made.point("plain", "t", baseline=True, spec=spec, changes=changes), "AAAB")
    made.answers(made.point("chance", "t"), "ABAB")
    facts(made)
    table = score_table(made.path)
    frame = table.to_pandas()
    write_report(table, made.path)
    pandas.testing.assert_frame_equal(
        frame[frame.columns[:-2]], pandas.read_csv(made.path / "report.csv")
    )
    arms = frame[(frame.metric == "accuracy") & frame.point.notna()]
    assert arms["stages.mark.radius"].fillna(-1).tolist() == [10, 5, 10, -1]
    assert arms["stages.think"].tolist() == ["Thought", "Thought", "none", "none"]
    assert frame["task_name"].isna().sum() == (~frame.task.eq("t")).sum()


def test_the_reader_is_one_setting_and_python_reports_its_absence_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arms = {"plain": ASK, "said": SAY}
    table = evaluate(Greys(), arms, MODEL, reader=LastLetter(), out="runs/evaluate")
    assert table.rows[0].value == 0.5
    with pytest.raises(RunError, match=r"pass score_table\(\.\.\., reader=LastLetter\(\)\)"):
        write_report(["runs/evaluate"], "out")
    assert write_report(["runs/evaluate"], "out", reader=LastLetter()).exists()
    assert score_table("runs/evaluate", reader=LastLetter()).csv == table.csv
