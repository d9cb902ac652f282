"""`looktwice allow`: remembers what a study, a run or a folder of questions may read elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from looktwice.eval.records.records import RunFolder
from looktwice.eval.runs.replay import build_stages
from looktwice.eval.scoring.score import ScoringTools
from looktwice.eval.tasks.folder import Folder
from looktwice.pipelines.config.allowances import allow, allowances, forget
from looktwice.pipelines.config.build import Binder, Scope
from looktwice.pipelines.config.load import load
from looktwice.pipelines.config.paths import find_config, note_outside, shipped
from looktwice.pipelines.config.plan import load_plan
from looktwice.pipelines.counted import counted


def allow_path(path: Path, overrides: Sequence[str] = (), plugins: Sequence[str] = ()) -> Iterator[str]:
    """Remember that what lies at `path` may read the paths that it names, and say which these are.

    Raises ConfigError for a study with other faults, RunError, TaskError.
    """
    files = list[Path]()
    with note_outside() as reads:
        if (path / "points.yaml").is_file():
            files = [path / "points.yaml"]
            _build_run(RunFolder(path), plugins)
        elif path.is_dir():
            files = [path / "samples.jsonl"] if (path / "samples.jsonl").is_file() else []
            _look_at_questions(path, reads)
        else:
            path = find_config(path)
            load(path, files=files)
            load_plan(path, overrides, plugins)
    if not reads:
        yield f"{path} names nothing outside of its own folder, so there is nothing to allow"
        return
    own = [file for file in files if file not in shipped().values()]
    allow(path, own, reads)
    yield f"{path} may read, until {'it' if len(own) < 2 else f'one of its {len(own)} files'} changes:"
    yield from sorted({f"  {place}" for place in reads})
    yield f"looktwice allow --forget {path} takes it back"


def _build_run(folder: RunFolder, plugins: Sequence[str]) -> None:
    binder, tools = Binder(Scope.of_records(folder.path, plugins)), ScoringTools(folder, plugins=tuple(plugins))
    for point in folder.points.values():
        build_stages(folder, point, binder)
        binder.node(point.spec["task"], "task")
        tools.record_scorer(point)


def _look_at_questions(folder: Path, reads: list[Path]) -> None:
    """Note the folders in which pictures of the questions lie, and where links in the folder lead."""
    if (folder / "samples.jsonl").is_file():
        len(Folder(folder))  # reads every line
    links = [entry.resolve() for entry in folder.rglob("*") if entry.is_symlink() and entry.exists()]
    reads[:] = {place if place.is_dir() else place.parent for place in (*reads, *links)}


def forget_path(path: Path) -> str:
    """Take back what was allowed at `path`, and say so."""
    gone = forget(find_config(path))
    return f"{path} is allowed nothing any more" if gone else f"{path} was allowed nothing"


def list_allowed() -> Iterator[str]:
    """A line for everything that is allowed, and for each path that it may read."""
    there = list(allowances())
    yield f"{counted(len(there), 'study or folder', 'studies and folders')} may read more than what lies beside them"
    for allowance in there:
        yield allowance.path if allowance.holds else f"{allowance.path}: changed since, so it may read none of these"
        yield from (f"  {place}" for place in allowance.reads)
