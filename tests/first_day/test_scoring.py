"""A user's first tables: custom classes, changed plans, sweeps, specialists."""

from __future__ import annotations

import csv
import inspect
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from looktwice.eval import evaluate
from looktwice.eval.cli import app
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.readers.reader import Reader, Reading
from looktwice.eval.recorded.replay import describe_replay, replay
from looktwice.eval.scoring import Metric, PointScores, Scorer
from looktwice.eval.scoring.metrics import accuracy
from looktwice.eval.tasks.base import Facts
from looktwice.pipelines import Picture, Pipeline, Sample, Scripted
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import State
from looktwice.prompting import Ask, MultipleChoice
from tests.chat_server import chat_server
from tests.optional import needs_extras


@dataclass(frozen=True)
class LastLetter(Reader):
    """A reader as a notebook would define it; this module is not a plugin either."""

    def read(self, state: State) -> Reading:
        letters = [letter for letter in state.reply if letter in "AB"]
        return Reading.from_answer(letters[-1] if letters else None)


@dataclass(frozen=True)
class Halved(Scorer):
    def metrics(self, scores: PointScores) -> list[Metric]:
        return [Metric("halved", {name: value / 2 for name, value in accuracy(scores).items()})]


@dataclass(frozen=True)
class Greys:
    """Grey squares; the correct answers are A, B, A, B ..."""

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


@dataclass(frozen=True)
class Shout:
    def __call__(self, state: Any, model: Any) -> Any:
        return state.replace(prompt=state.prompt.upper())


@dataclass(frozen=True)
class Parity:
    """A specialist that does not declare itself as one."""

    def __call__(self, state: Any, model: Any) -> Any:
        return state.replace(answer="AB"[int(state.sample.id[1:]) % 2])


OWN = (LastLetter, Halved, Greys, Shout, Parity)
IMPORTS = Path(__file__).read_text().partition("\n\n\n")[0].partition("from __future__")
MINE = "\n\n".join(["".join(IMPORTS[1:]), *map(inspect.getsource, OWN)])
"""The classes above in a separate file."""
STUDY = """
task: {use: mine.Greys, name: task, scored: true}
model: {use: pipelines.models.Scripted, answer: "A is wrong, so B"}
stages: {shout: {use: mine.Shout}, ask: {use: prompting.turns.Ask}}
read: {use: mine.LastLetter}
contestants:
  plain: {}
  parity: {replace: true, stages: {answer: {use: mine.Parity}}}
"""
for _class in OWN:
    _class.__module__ = "__main__"
ASK, SAY = Pipeline({"ask": Ask()}), Pipeline({"say": MultipleChoice(), "ask": Ask()})
MODEL = Scripted("A is wrong, so B")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's working folder with one file of classes and one study."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "own.yaml").write_text(STUDY)
    yield tmp_path
    sys.modules.pop("mine", None)


def looktwice(*words: str, code: int = 0) -> str:
    """Return the output of a command on one line, run in a process without a loaded plugin."""
    sys.modules.pop("mine", None)
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


RUN = ("run", "own.yaml", "--plugin", "mine.py", "--table", "full")


def values(table: Table, **fields: Any) -> dict[str, float | None]:
    return {row.contestant: row.value for row in table.where(slice="", **fields) if row.point}


def report_rows(run: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((run / "report.csv").read_text().splitlines()))


def test_a_run_is_scored_with_its_plugin_and_a_changed_plugin_is_reported(folder: Path) -> None:
    output = looktwice("run", "own.yaml", "--plugin", "./mine.py", "--table", "full")
    assert "plain 50.0 [15.0–85.0] 4 2/2/0/0" in output and "reader: last_letter" in output
    report = (folder / "runs/own/report.md").read_text()
    assert "Read with: last_letter" in report
    specialists = report.split("## Specialists and MLLMs")[1]
    assert "| task | parity | plain | 4 | 2 | 2 | 0 | 0 |" in specialists
    rows = report_rows(folder / "runs/own")
    assert [row["value"] for row in rows if row["metric"] == "halved"][:2] == ["0.25", "0.5"]
    assert "changed since" not in looktwice(*RUN)
    with (folder / "mine.py").open("a") as file:
        file.write("\n# another line\n")
    assert "mine.py changed since this run began; existing records are kept" in looktwice(*RUN)
    assert "changed since" not in looktwice(*RUN)


@needs_extras
def test_every_scoring_command_accepts_the_plugin_and_says_what_to_type_without_it(
    folder: Path,
) -> None:
    looktwice(*RUN)
    shutil.copytree("runs/own", "runs/sent")  # an untrusted run must not load code
    for command in ("score", "score --report", "export --to trajectories --out t.jsonl"):
        name, *options = command.split()
        without = looktwice(name, "runs/sent", *options, code=2)
        assert "mine.LastLetter" in without
        assert f"looktwice score runs/sent --plugin {folder / 'mine.py'}`" in without
        looktwice(name, "runs/sent", *options, "--plugin", str(folder / "mine.py"))
        looktwice(name, "runs/own", *options)


def test_a_plugin_can_be_given_twice_and_can_have_changed(folder: Path) -> None:
    looktwice(*RUN)
    table = score_table("runs/own", plugins=["mine.py"])  # as with --plugin
    assert table.csv == score_table("runs/own", plugins=["mine"]).csv
    (folder / "mine.py").write_text(MINE.replace('in "AB"', 'in "A"'))
    names = " ".join(f"--plugin {path}" for path in ("mine.py", "./mine.py", folder / "mine.py"))
    assert "reader: last_letter" in looktwice(*SCORE, *names.split())
    (folder / "mine.py").write_text(MINE.replace("class LastLetter", "class FirstLetter"))
    gone = looktwice("score", "runs/own", "--plugin", "mine.py", code=2)
    assert "plain on task" in gone and "'LastLetter' in mine" in gone


SCORE = ("score", "runs/own", "--table", "full")


def test_a_custom_reader_can_be_given_for_scoring_and_its_fault_is_reported(folder: Path) -> None:
    looktwice(*RUN, "read={use: eval.readers.Robust}")
    again = (*SCORE, "--reader", "mine.LastLetter", "--plugin", "mine.py")
    assert "reader: last_letter" in looktwice(*again)
    (folder / "mine.py").write_text(MINE.replace("in state.reply", "in state.reply.text"))
    assert "failed: 4 answers, most often with AttributeError" in looktwice(*again)


def test_objects_for_scoring_are_built_before_the_first_request(folder: Path) -> None:
    scorer = "Halved() if self.scored else {}"
    assert scorer in MINE
    (folder / "mine.py").write_text(MINE.replace(scorer, "{'use': 'eval.scoring.AllRigth'}"))
    with chat_server() as server:
        model = f"model={{use: pipelines.models.ChatAPI, model: m, url: {server.url}}}"
        output = looktwice(*RUN, model, code=2)
        assert server.stats["requests"] == 0
    assert "tasks.task: the scorer of its facts" in output and "'AllRigth'" in output


def test_evaluate_scores_with_the_given_objects(folder: Path) -> None:
    asked = Greys(scored=True), {"plain": ASK}, MODEL
    table = evaluate(*asked, reader=LastLetter(), out="runs/evaluate")
    assert values(table, metric="accuracy") == {"plain": 0.5}
    assert table.rows[0].reader == "last_letter"
    assert values(table, metric="halved") == {"plain": 0.25}
    with pytest.raises(ValueError, match=r"__main__\.LastLetter"):
        score_table("runs/evaluate")
    lines = [*describe_replay(replay(Path("runs/evaluate")))]
    assert "'__main__.Greys'" in lines[0] and f"not replayed: {len(Greys())} records" in lines[1]


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


def test_a_table_shows_the_present_plan_and_names_the_older_arms(folder: Path) -> None:
    (folder / "radii.yaml").write_text(RADII)
    looktwice("run", "radii.yaml")
    output = looktwice("run", "radii.yaml", "sweep={stages.mark.radius: [8]}", "--table", "full")
    assert "plain [mark.radius=8]" in output
    assert "not shown: 3 arms of earlier plans, plain [mark.radius=5] on jigsaw, plain" in output
    rows = report_rows(folder / "runs/radii")
    assert {row["contestant"] for row in rows if row["point"]} == {"plain [mark.radius=8]"}
    for name in ("report.md", "report.html"):
        assert "3 arms of earlier plans" in (folder / "runs/radii" / name).read_text()
    every = looktwice("score", "runs/radii", "--all", "--table", "full")
    assert "plain [mark.radius=15] " in every and "not shown: 3 arms" not in every
    looktwice("score", "runs/radii", "--report", "--all")
    rows = report_rows(folder / "runs/radii")
    assert len({row["contestant"] for row in rows if row["point"]}) == 4


def test_evaluate_excludes_earlier_contents_of_its_folder(folder: Path) -> None:
    tasks, out = {"one": Greys(4), "two": Greys(6)}, "runs/evaluate"
    first = evaluate(tasks, {"a": ASK, "b": SAY}, MODEL, out=out)
    compared = [row for row in first.where(metric="accuracy", slice="") if row.p is not None]
    assert {row.task for row in compared} == {"one", "two", "micro"}
    assert all(row.p_holm is not None for row in compared)
    tasks = {"three": Greys(8), "two": Greys(6)}
    table = evaluate(tasks, {"c": ASK}, Scripted("(A)"), out=out)
    means = table.where(metric="accuracy", contestant="c")
    (macro,), (micro,) = means.where(task="macro"), means.where(task="micro")
    assert (macro.n_tasks, macro.of_tasks, micro.n) == (2, 2, 14)
    assert {row.contestant for row in table if row.point} == {"c"}
    assert {row.task_name for row in table if row.task_name} == {"two", "three"}
    every = score_table("runs/evaluate", LastLetter(), all_arms=True)
    assert {row.contestant for row in every if row.point} == {"a", "b", "c"}


# ---- what was never asked


# ---- factors of a sweep, Holm, notebooks, macro, specialists


def test_a_notebook_shows_a_task_name_once(folder: Path) -> None:
    table = evaluate({"one": Greys(4), "two": Greys(6)}, {"a": ASK, "b": SAY}, MODEL)
    assert table._repr_html_().count("<th scope=row>one</th>") == 1
    rows = [line for line in table._repr_markdown_().splitlines() if line.startswith("| ")]
    names = [row.split("|")[1].strip() for row in rows]
    assert [name for name in names if name] == ["task", "---", "one", "two", "macro", "micro"]
    alone = evaluate(Greys(4), {"a": ASK}, MODEL, out="runs/alone")
    assert alone._repr_markdown_().count("greys") == 1
    assert "macro" not in alone._repr_html_()


PART = """
tasks:
  one: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
  two: {use: eval.tasks.Photos, kind: jigsaw, n: 4}
  three: {use: eval.tasks.Photos, kind: jigsaw, n: 3}
model: {use: pipelines.models.Scripted, answer: (A)}
stages: {ask: {use: prompting.turns.Ask}}
contestants:
  plain: {}
  part: {only: [one, two], stages: {say: &say {use: prompting.wording.MultipleChoice, before: ask}}}
  lone: {only: [three], stages: {say: *say}}
"""


def test_a_mean_over_some_of_the_tasks_is_marked(folder: Path) -> None:
    (folder / "part.yaml").write_text(PART)
    output = looktwice("run", "part.yaml", "--table", "full")
    assert output.count("part (2 of 3 tasks)") == 2
    assert "plain (1 of 3" not in output and "plain (3 of 3" not in output
    # the mean of one task is its accuracy, which is shown above
    table = output.partition("task and contestant")[2].partition("split: ")[0]
    assert table.count(" lone ") == 1
    scored = score_table("runs/part")
    assert "part (2 of 3 tasks)" in scored._repr_html_()
    (macro,) = scored.where(metric="accuracy", task="macro", contestant="part")
    assert (macro.n_tasks, macro.of_tasks) == (2, 3)
