"""A resume with nothing to do says again what was said, unless anything that it follows from may have changed."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench import large_run
from looktwice import prompting
from looktwice.eval.cli import app
from looktwice.eval.display import table
from looktwice.eval.kept_results import KeptResults
from looktwice.pipelines.config import load_plan


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_run, "ARMS", 2)
        return large_run.make_run(tmp_path_factory.mktemp("kept"), 4)[0].parent


class Finished:
    """A finished run, and the command that goes on with it; `computed` tells whether that scored."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.config, self.run, self.patch, self.computed = root / "large.yaml", root / "runs" / "large", monkeypatch, 0
        self.options: tuple[str, ...] = ()
        score = table.score_table

        def counted(*arguments: Any, **more: Any) -> table.Table:
            self.computed += 1
            return score(*arguments, **more)

        monkeypatch.setattr(table, "score_table", counted)

    def again(self) -> str:
        self.computed = 0
        done = CliRunner().invoke(app, ["run", str(self.config), "--out", str(self.run.parent), *self.options])
        assert done.exit_code == 0, done.output
        return done.stdout

    def change(self, path: Path, old: str, new: str) -> None:
        path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")

    def touch(self, name: str) -> None:
        (self.run / name).touch()
        os.utime(self.run / name, (1e9, 1e9))


@pytest.fixture
def finished(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finished:
    shutil.copytree(made, tmp_path / "large")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    return Finished(tmp_path / "large", monkeypatch)


def test_a_resume_with_nothing_to_do_says_again_what_was_said(finished: Finished) -> None:
    """It scored and reported 100,000 records anew, for the same table."""
    first, report = finished.again(), (finished.run / "report.html").read_bytes()
    assert finished.computed == 1
    assert finished.again() == first
    assert not finished.computed
    assert (finished.run / "report.html").read_bytes() == report


def copy_over(finished: Finished) -> None:
    path, at = finished.run / "records.jsonl", (finished.run / "records.jsonl").stat()
    shutil.copy2(path, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


def add_code(finished: Finished) -> None:
    folder = finished.run.parent / "more"
    folder.mkdir()
    (folder / "stage.py").touch()
    finished.patch.setattr(prompting, "__path__", [*prompting.__path__, str(folder)])


def install(finished: Finished) -> None:
    folder = finished.run.parent / "site-packages"
    folder.mkdir()
    finished.patch.syspath_prepend(str(folder))


def answer_again(finished: Finished) -> None:
    path = finished.run / "records.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(path.read_text(encoding="utf-8").splitlines(keepends=True)[0])


CHANGES: dict[str, Callable[[Finished], object]] = {
    "a record more": answer_again,
    "another file of records": copy_over,
    "records at another time": lambda run: run.touch("records.jsonl"),
    "samples at another time": lambda run: run.touch("samples.jsonl"),
    "a judge's verdicts": lambda run: run.touch("judged.jsonl"),
    "points.yaml": lambda run: run.change(run.run / "points.yaml", "- id: ", "- id: older"),
    "run.yaml": lambda run: run.change(run.run / "run.yaml", "started: '2", "started: '3"),
    "no report": lambda run: (run.run / "report.md").unlink(),
    "another report": lambda run: run.touch("report.csv"),
    "effects of something else": lambda run: run.touch("effects.csv"),
    "a narrower terminal": lambda run: run.patch.setenv("COLUMNS", "70"),
    "colours": lambda run: run.patch.setenv("FORCE_COLOR", "1"),
    "a key": lambda run: run.patch.setenv("OPENAI_API_KEY", "sk-0123456789"),
    "code": add_code,
    "a library": install,
    "damage": lambda run: (run.run / ".results").write_text("{}"),
}


def test_what_is_kept_counts_for_nothing_once_something_changed(finished: Finished) -> None:
    """A stale table is worse than a slow one."""
    finished.again()
    plan = load_plan(finished.config)
    for name, change in CHANGES.items():
        now = KeptResults(finished.run, plan, Console(file=io.StringIO()))
        now.keep("the table")
        assert KeptResults(finished.run, plan, now.console).say_again(), name
        change(finished)
        changed = KeptResults(finished.run, plan, Console(file=io.StringIO()))
        assert not changed.say_again(), name


def test_nothing_is_kept_of_what_changed_meanwhile(finished: Finished) -> None:
    """Another process may go on with the run while the table is made."""
    kept = KeptResults(finished.run, load_plan(finished.config), Console(file=io.StringIO()))
    assert kept.inputs
    answer_again(finished)
    kept.keep("a table of fewer records")
    assert not (finished.run / ".results").exists()


def test_another_plan_of_the_same_arms_is_computed(finished: Finished) -> None:
    """The baseline decides what the table says, and stands in the configuration alone."""
    first = finished.again()
    finished.change(finished.config, "baseline: say0", "baseline: say1")
    assert finished.again() != first
    assert finished.computed == 1


def test_it_is_always_computed_where_not_all_is_looked_at_or_known(finished: Finished, tmp_path: Path) -> None:
    """Samples beyond a limit may have changed, and what code of somebody else looks at, nobody knows."""
    (tmp_path / "kept_plugin.py").touch()
    for options in (("--limit", "4"), ("--keep-failed",), ("--plugin", str(tmp_path / "kept_plugin.py"))):
        finished.options = options
        for _ in range(2):
            finished.again()
            assert finished.computed == 1, options
