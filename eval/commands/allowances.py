"""The command that remembers what a study, a run or a folder of questions may read elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import Overrides, Plugins, input_errors, load_plugins, say


def allow(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="A study, a run folder, or a folder of questions."),
    ] = None,
    overrides: Overrides = None,
    plugin: Plugins = None,
    listed: Annotated[bool, typer.Option("--list", help="List what is allowed.")] = False,
    forgotten: Annotated[
        bool, typer.Option("--forget", help="Take back what was allowed.")
    ] = False,
) -> None:
    """Let a study that you trust read the paths it names.

    It is remembered until the study, or a file that it includes, changes; a copy elsewhere is
    another study. So are a run folder and a folder of questions.
    """
    with input_errors():
        from looktwice.pipelines.config.paths import allowances, find_config, forget

        if path is not None and forgotten:
            ending = (
                "is allowed nothing any more"
                if forget(find_config(path))
                else "was allowed nothing"
            )
            say(f"{path} {ending}")
        elif path is not None:
            _allow(path, overrides or (), load_plugins(plugin))
        for allowance in allowances() if listed or path is None else ():
            say(
                allowance.path
                if allowance.holds
                else f"{allowance.path}: changed since, so it may read none of these"
            )
            for place in allowance.reads:
                say(f"  {place}")


def _allow(path: Path, overrides: Sequence[str], plugins: Sequence[str]) -> None:
    """Remember what lies at `path` and what it names. Raises ConfigError for other faults,
    RunError, TaskError."""
    from looktwice.pipelines.config.load import load
    from looktwice.pipelines.config.paths import allow, find_config, note_outside, shipped
    from looktwice.pipelines.config.plan import load_plan

    files = list[Path]()
    with note_outside() as reads:
        if (path / "points.yaml").is_file():
            files = [path / "points.yaml"]
            _build_run(path, plugins)
        elif path.is_dir():
            files = [file for file in (path / "samples.jsonl",) if file.is_file()]
            _look_at_questions(path, reads)
        else:
            path = find_config(path)
            load(path, files=files)
            load_plan(path, overrides, plugins)
    if not reads:
        say(f"{path} names nothing outside of its own folder, so there is nothing to allow")
        return
    allow(path, [file for file in files if file not in shipped().values()], reads)
    say(f"{path} may read, until it or what it includes changes:")
    for place in sorted(set(reads)):
        say(f"  {place}")
    say(f"looktwice allow --forget {path} takes it back")


def _build_run(run: Path, plugins: Sequence[str]) -> None:
    from looktwice.eval.records.records import RunFolder
    from looktwice.eval.runs.replay import build_stages
    from looktwice.eval.scoring.score_run import ScoringTools
    from looktwice.pipelines.config.build import Binder
    from looktwice.pipelines.config.paths import Scope

    folder, binder = RunFolder(run), Binder(Scope.of_records(run, plugins))
    tools = ScoringTools(folder, plugins=tuple(plugins))
    for point in folder.points.values():
        build_stages(folder, point, binder)
        binder.node(point.spec["task"], "task")
        tools.record_scorer(point)


def _look_at_questions(folder: Path, reads: list[Path]) -> None:
    """Note the folders in which pictures of the questions lie, and where links in the folder
    lead."""
    from looktwice.eval.tasks.folder import Folder

    if (folder / "samples.jsonl").is_file():
        len(Folder(folder))  # reads every line
    links = [
        entry.resolve() for entry in folder.rglob("*") if entry.is_symlink() and entry.exists()
    ]
    reads[:] = {place if place.is_dir() else place.parent for place in (*reads, *links)}
