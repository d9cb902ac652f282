"""A user's first tables: classes of one's own, plans that changed, runs that stopped early, sweeps,
specialists."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from looktwice.eval import evaluate
from looktwice.eval.cli import app
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.readers.reader import Reader, Reading
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring import Metric, Scorer
from looktwice.eval.scoring.row import accuracy
from looktwice.eval.scoring.verdict import PointScores
from looktwice.eval.tasks.base import Facts
from looktwice.pipelines import Picture, Pipeline, Sample, Scripted
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import State
from looktwice.prompting import Ask, MultipleChoice
from tests.chat_server import chat_server

MINE = '''
from dataclasses import dataclass

import numpy as np

from looktwice.eval.readers.reader import Reader, Reading
from looktwice.eval.scoring import Metric, Scorer
from looktwice.eval.scoring.row import accuracy
from looktwice.eval.tasks.base import Facts
from looktwice.pipelines import Picture, Sample
from looktwice.pipelines.sample import Item


@dataclass(frozen=True)
class LastLetter(Reader):
    def read(self, state):
        return Reading.of(([letter for letter in state.reply if letter in "AB"] or [None])[-1])


@dataclass(frozen=True)
class Doubled(Scorer):
    def metrics(self, scores):
        return [Metric("halved", {name: value / 2 for name, value in accuracy(scores).items()})]


@dataclass(frozen=True)
class Greys:
    n: int = 4
    scorer: Scorer = Doubled()

    @property
    def facts(self):
        return Facts("made", "mine", scorer=self.scorer)

    def __len__(self):
        return self.n

    def __iter__(self):
        for i in range(self.n):
            image = Picture(np.full((8, 8, 3), 9 * i, np.uint8))
            yield Item(Sample(f"g{i}", "Which one?", (image,), ("one", "two")), "AB"[i % 2])


@dataclass(frozen=True)
class Shout:
    def __call__(self, state, model):
        return state.replace(prompt=state.prompt.upper())


@dataclass(frozen=True)
class Parity:
    """A specialist that says nowhere that it is one."""

    def __call__(self, state, model):
        return state.replace(answer="AB"[int(state.sample.id[1:]) % 2])
'''
OWN = """
task: {use: mine.Greys}
model: {use: pipelines.models.Scripted, answer: "A is wrong, so B"}
stages: {shout: {use: mine.Shout}, ask: {use: prompting.turns.Ask}}
read: {use: mine.LastLetter}
contestants:
  plain: {}
  parity: {replace: true, stages: {answer: {use: mine.Parity}}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's working folder with one file of classes and one study."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "own.yaml").write_text(OWN)
    yield tmp_path
    sys.modules.pop("mine", None)


def looktwice(*words: str) -> Result:
    """A command as a process of its own would run it: no plugin is loaded yet."""
    sys.modules.pop("mine", None)
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def words(result: Result) -> str:
    """What was printed, in one line."""
    return " ".join(result.output.split())


def values(table: Table, **fields: Any) -> dict[str, float | None]:
    return {row.contestant: row.value for row in table.where(slice="", **fields) if row.point}


def report_rows(run: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((run / "report.csv").read_text().splitlines()))


# ---- classes of one's own


def test_a_run_reads_with_the_reader_of_the_plugin_that_it_was_given(folder: Path) -> None:
    """Every question was asked, and then scoring died with "is refused ... add --plugin"."""
    result = looktwice("run", "own.yaml", "--plugin", "./mine.py")
    assert result.exit_code == 0
    assert "plain 50.0 [15.0–85.0] 4 2/2/0/0" in words(result)
    assert "reader: last_letter" in words(result)
    assert "Read with: last_letter" in (folder / "runs/own/report.md").read_text()
    rows = report_rows(folder / "runs/own")
    assert [row["value"] for row in rows if row["metric"] == "halved"][:2] == ["0.25", "0.5"]


SCORING = (
    ("score", "runs/own"),
    ("report", "runs/own"),
    ("replies", "runs/own"),
    ("trajectories", "runs/own", "--out", "t.jsonl"),
)


@pytest.mark.parametrize("command", SCORING, ids=[each[0] for each in SCORING])
def test_every_command_that_scores_takes_the_plugin_and_says_what_to_type_without(
    folder: Path, command: tuple[str, ...]
) -> None:
    """`score` and `report` had no `--plugin`."""
    looktwice("run", "own.yaml", "--plugin", "mine.py")
    without = looktwice(*command)
    assert without.exit_code == 2
    assert "its reader mine.LastLetter is a class of the plugin" in words(without)
    assert f"looktwice score runs/own --plugin {folder / 'mine.py'}`" in words(without)
    assert looktwice(*command, "--plugin", str(folder / "mine.py")).exit_code == 0


def test_a_plugin_may_be_named_twice_and_may_have_changed(folder: Path) -> None:
    looktwice("run", "own.yaml", "--plugin", "mine.py")
    (folder / "mine.py").write_text(MINE.replace('in "AB"', 'in "A"'))
    names = (
        word
        for path in ("mine.py", "./mine.py", str(folder / "mine.py"))
        for word in ("--plugin", path)
    )
    twice = looktwice("score", "runs/own", *names)
    assert twice.exit_code == 0
    assert "reader: last_letter" in words(twice)
    (folder / "mine.py").write_text(MINE.replace("LastLetter", "FirstLetter"))
    gone = looktwice("score", "runs/own", "--plugin", "mine.py")
    assert gone.exit_code == 2
    assert "plain on task cannot be scored" in words(gone)
    assert "no public class 'LastLetter' in mine" in words(gone)


def test_a_reader_of_one_s_own_can_be_named_for_scoring_alone(folder: Path) -> None:
    looktwice("run", "own.yaml", "--plugin", "mine.py", "read={use: eval.readers.Robust}")
    again = looktwice("score", "runs/own", "--reader", "mine.LastLetter", "--plugin", "mine.py")
    assert "reader: last_letter" in words(again)


def test_what_scoring_needs_is_built_before_the_first_request(folder: Path) -> None:
    """A scorer that cannot be built was noticed after everything had been asked and paid for."""
    (folder / "mine.py").write_text(
        MINE.replace("scorer=self.scorer", "scorer={'use': 'eval.scoring.AllRigth'}")
    )
    with chat_server() as server:
        model = f"model={{use: pipelines.models.ChatAPI, model: m, url: {server.url}}}"
        result = looktwice("run", "own.yaml", model, "--plugin", "mine.py")
        assert server.stats["requests"] == 0
    assert result.exit_code == 2
    assert "tasks.task: the scorer of its facts" in words(result)
    assert "'AllRigth'" in words(result)


@dataclass(frozen=True)
class LastLetter(Reader):
    """As a notebook would define it; its module here is no plugin either."""

    def read(self, state: State) -> Reading:
        letters = [letter for letter in state.reply or "" if letter in "AB"]
        return Reading.of(letters[-1] if letters else None)


@dataclass(frozen=True)
class Halved(Scorer):
    def metrics(self, scores: PointScores) -> list[Metric]:
        return [Metric("halved", {name: value / 2 for name, value in accuracy(scores).items()})]


@dataclass(frozen=True)
class Greys:
    """Grey squares; the right answers are A, B, A, B ..."""

    n: int = 4
    name: str = "greys"
    scored: bool = False

    @property
    def facts(self) -> Facts:
        return Facts("made", "mine", scorer=Halved() if self.scored else {})

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Item]:
        for i in range(self.n):
            image = Picture(np.full((8, 8, 3), 9 * i, np.uint8))
            yield Item(Sample(f"g{i}", "Which one?", (image,), ("one", "two")), "AB"[i % 2])


for _class in (LastLetter, Halved, Greys):
    _class.__module__ = "__main__"
ASK, SAY = Pipeline({"ask": Ask()}), Pipeline({"say": MultipleChoice(), "ask": Ask()})
MODEL = Scripted("A is wrong, so B")


def test_evaluate_scores_with_the_objects_that_it_was_given(folder: Path) -> None:
    """`evaluate(..., reader=LastLetter())` asked everything and then died, for the class stood in a
    notebook."""
    table = evaluate(Greys(scored=True), {"plain": ASK}, MODEL, reader=LastLetter())
    assert values(table, metric="accuracy") == {"plain": 0.5}
    assert table.rows[0].reader == "last_letter"
    assert values(table, metric="halved") == {"plain": 0.25}
    with pytest.raises(
        ValueError, match=r"its reader __main__\.LastLetter is a class of the script or notebook"
    ):
        score_table("runs/evaluate")


def test_a_fault_in_one_s_own_reader_is_told_under_the_table(folder: Path) -> None:
    """Every answer FAILED with an accuracy of 0.0, and the terminal gave no reason."""
    (folder / "mine.py").write_text(MINE.replace("in state.reply", "in state.reply.text"))
    shown = words(looktwice("run", "own.yaml", "--plugin", "mine.py"))
    assert (
        "failed: 4 answers, most often with AttributeError: 'str' object has no attribute 'text'"
        in shown
    )


# ---- the present plan

RADII = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
model: {use: pipelines.models.Scripted, answer: (A)}
stages:
  mark: {use: prompting.markers.Circles}
  say: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
sweep: {stages.mark.radius: [5, 10, 15]}
"""


def test_a_table_holds_the_present_plan_and_names_the_older_arms(folder: Path) -> None:
    """After the list of radii was changed to [8], the old variants stayed in the table, and one was
    the baseline."""
    (folder / "radii.yaml").write_text(RADII)
    looktwice("run", "radii.yaml")
    result = looktwice("run", "radii.yaml", "sweep={stages.mark.radius: [8]}")
    assert "plain [mark.radius=8]" in words(result)
    assert "not shown: 3 arms of earlier plans, plain [mark.radius=5] on jigsaw, plain" in words(
        result
    )
    rows = report_rows(folder / "runs/radii")
    assert {row["contestant"] for row in rows if row["point"]} == {"plain [mark.radius=8]"}
    for name in ("report.md", "report.html"):
        assert "3 arms of earlier plans" in (folder / "runs/radii" / name).read_text()
    assert "plain [mark.radius=15]  " in looktwice("score", "runs/radii", "--all").output
    assert "arms of earlier plans" not in looktwice("score", "runs/radii", "--all").output
    looktwice("report", "runs/radii", "--all")
    rows = report_rows(folder / "runs/radii")
    assert len({row["contestant"] for row in rows if row["point"]}) == 4


def test_evaluate_in_its_default_folder_pools_nothing_that_was_there_before(folder: Path) -> None:
    """A second `evaluate()` put the first one's contestants and tasks into its macro and micro."""
    evaluate({"one": Greys(4), "two": Greys(6)}, {"a": ASK, "b": SAY}, MODEL)
    table = evaluate({"three": Greys(8), "two": Greys(6)}, {"c": ASK}, Scripted("(A)"))
    macro, micro = (
        table.where(metric="accuracy", task=name, contestant="c").rows[0]
        for name in ("macro", "micro")
    )
    assert (macro.n_tasks, macro.of_tasks, micro.n) == (2, 2, 14)
    assert {row.contestant for row in table if row.point} == {"c"}
    assert {row.task_name for row in table if row.task_name} == {"two", "three"}
    shown = {
        row.contestant
        for row in score_table("runs/evaluate", LastLetter(), all_arms=True)
        if row.point
    }
    assert shown == {"a", "b", "c"}


# ---- what was never asked


def stopped(folder: Path) -> Table:
    """A run of 4 samples of which one was never asked, and of which `other` was asked two alone."""
    (folder / "short.yaml").write_text(
        "task: {use: eval.tasks.Photos, kind: jigsaw, n: 4}\nmodel: {use:"
        " pipelines.models.Scripted, answer: (A)}\nstages: {ask: {use:"
        " prompting.turns.Ask}}\ncontestants: {plain: {}, other: {stages: {say: {use:"
        " prompting.wording.MultipleChoice, before: ask}}}}\n"
    )
    Study(load_plan(folder / "short.yaml"), folder / "runs", RunOptions(workers=1))()
    run = folder / "runs/short"
    lines = (run / "records.jsonl").read_text().splitlines(keepends=True)
    samples = (run / "samples.jsonl").read_text().splitlines(keepends=True)
    plan = load_plan(folder / "short.yaml").points
    last = samples[-1].partition('"id":"')[2].partition('"')[0]
    other = [line for line in lines if f'"point":"{plan[1].id}"' in line]
    kept = [line for line in lines if last not in line and line not in other[2:]]
    (run / "records.jsonl").write_text("".join(kept))
    (run / "samples.jsonl").write_text("".join(samples[:-1]))
    return score_table(run)


def test_what_was_never_asked_is_in_no_mean_and_is_counted(folder: Path) -> None:
    """A table of an interrupted run showed 0.0 for what was never asked in one case and a smaller n
    in another."""
    table = stopped(folder)
    by = {row.contestant: row for row in table.where(metric="accuracy", task="jigsaw") if row.point}
    for name, asked in (("plain", 3), ("other", 2)):
        row = by[name]
        assert (row.n, row.missing) == (asked, 4 - asked)
        assert row.value == pytest.approx((row.right or 0) / asked)
    assert values(table, metric="coverage", task="jigsaw") == {"plain": 1.0, "other": 1.0}
    assert values(table, metric="missing") == {"plain": 0.25, "other": 0.5}
    assert table.notes == (
        "delta: against plain (first contestant)",
        "unfinished: 3 of 8 planned answers are missing, and in no mean; the same command goes on",
    )
    shown = " ".join(repr(table).split())
    assert "r/w/u/f/m" in shown
    for line in table.notes:
        assert line in shown
        assert line in table._repr_html_()
    looktwice("report", "runs/short")
    for name in ("report.md", "report.html"):
        assert "3 of 8 planned answers are missing" in (folder / "runs/short" / name).read_text()


def test_a_contestant_without_any_record_has_no_accuracy(folder: Path) -> None:
    stopped(folder)
    (folder / "runs/short/records.jsonl").write_text("")
    table = score_table("runs/short")
    assert values(table, metric="accuracy", task="jigsaw") == {"plain": None, "other": None}
    assert "plain - 0 0/0/0/0/4" in " ".join(repr(table).split())


# ---- factors of a sweep, Holm, notebooks, macro, specialists


def test_a_sweep_of_two_factors_tells_the_effect_of_each(folder: Path) -> None:
    """Twelve rows stood against one baseline, and no figure said what one of the factors did."""
    (folder / "two.yaml").write_text(RADII.replace("15]}", "15], stages.say: [{}, null]}"))
    shown = words(looktwice("run", "two.yaml"))
    assert "effect of each factor" in shown
    assert (
        "sweep: the effect of a level is its mean difference to the factor's first level" in shown
    )
    told = (folder / "runs/two/report.md").read_text()
    assert "| plain | jigsaw | mark.radius | 10 | 5 | +0.0<br>" in told
    assert "<h3>Effect of each factor</h3>" in (folder / "runs/two/report.html").read_text()


def test_every_comparison_in_the_file_has_its_corrected_p(folder: Path) -> None:
    """`p_holm` was empty in report.csv wherever a contestant is compared over all tasks."""
    table = evaluate({"one": Greys(4), "two": Greys(6)}, {"a": ASK, "b": SAY}, MODEL)
    compared = [row for row in table.where(metric="accuracy", slice="") if row.p is not None]
    assert {row.task for row in compared} == {"one", "two", "micro"}
    assert all(row.p_holm is not None for row in compared)


def test_a_notebook_names_a_task_once(folder: Path) -> None:
    """Every line of the table in a notebook repeated the task."""
    table = evaluate({"one": Greys(4), "two": Greys(6)}, {"a": ASK, "b": SAY}, MODEL)
    assert table._repr_html_().count("<th scope=row>one</th>") == 1
    lines = [
        line.split("|")[1].strip()
        for line in table._repr_markdown_().splitlines()
        if line.startswith("| ")
    ]
    assert [name for name in lines if name] == ["task", "---", "one", "two", "macro", "micro"]
    alone = evaluate(Greys(4), {"a": ASK}, MODEL, out="runs/alone")
    assert alone._repr_markdown_().count("greys") == 1
    assert "macro" not in alone._repr_html_()


def test_a_mean_over_some_of_the_tasks_says_so(folder: Path) -> None:
    """A contestant with one easy task led the macro of those that had run all."""
    (folder / "part.yaml").write_text(
        "tasks:\n  one: {use: eval.tasks.Photos, kind: jigsaw, n: 2}\n  two: {use:"
        " eval.tasks.Photos, kind: jigsaw, n: 4}\n  three: {use: eval.tasks.Photos, kind: jigsaw,"
        " n: 3}\nmodel: {use: pipelines.models.Scripted, answer: (A)}\nstages: {ask: {use:"
        " prompting.turns.Ask}}\ncontestants:\n  plain: {}\n  part: {only: [one, two], stages:"
        " {say: &say {use: prompting.wording.MultipleChoice, before: ask}}}\n  lone: {only:"
        " [three], stages: {say: *say}}\n"
    )
    shown = words(looktwice("run", "part.yaml"))
    assert shown.count("part (2 of 3 tasks)") == 2
    assert "plain (1 of 3" not in shown and "plain (3 of 3" not in shown
    # the mean of one task is its accuracy, which stands above
    assert shown.partition("task and contestant")[2].count(" lone ") == 1
    table = score_table("runs/part")
    assert "part (2 of 3 tasks)" in table._repr_html_()
    (macro,) = table.where(metric="accuracy", task="macro", contestant="part")
    assert (macro.n_tasks, macro.of_tasks) == (2, 3)


def test_a_specialist_is_known_by_what_it_did(folder: Path) -> None:
    """The section of specialists appeared only with `asks = False`, which nothing mentioned."""
    looktwice("run", "own.yaml", "--plugin", "mine.py")
    told = (folder / "runs/own/report.md").read_text()
    assert (
        "| task | parity | plain | 4 | 2 | 2 | 0 | 0 |" in told.split("## Specialists and MLLMs")[1]
    )


def test_a_run_that_goes_on_says_that_its_plugin_changed(folder: Path) -> None:
    """A stage was changed, its `version` was not, and the old results came back without a word."""
    command = ("run", "own.yaml", "--plugin", "mine.py")
    assert "changed since" not in words(looktwice(*command))
    assert "changed since" not in words(looktwice(*command))
    with (folder / "mine.py").open("a") as file:
        file.write("\n# another line\n")
    assert "mine.py changed since this run was begun; what is recorded stays" in words(
        looktwice(*command)
    )
    assert "changed since" not in words(looktwice(*command))
