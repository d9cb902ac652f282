"""The command `make`: every task of a configuration, saved as questions of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from looktwice.eval.make.save import SavedQuestions, save
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.load import Node, read_config, resolve
from looktwice.pipelines.counted import counted


def make_questions(
    config: Path,
    overrides: Sequence[str] = (),
    plugins: Sequence[str] = (),
    out: Path = Path("made"),
    split: str = "val",
    allow: Sequence[str] = (),
) -> Iterator[str]:
    """Save each task into `out/NAME`; lines that say what lies where. Raises ConfigError,
    TaskError, PictureError."""
    if not split.isalnum():
        raise TaskError(
            f"--split {split}: it begins every question's name, so it is letters and digits alone"
        )
    for name, task in build_tasks(config, overrides, plugins, allow).items():
        saved = save(task, name, out, split)
        yield from _describe(name, saved)
        yield from (f"  {line}" for line in task.facts.left_out)


def build_tasks(
    config: Path,
    overrides: Sequence[str] = (),
    plugins: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> dict[str, Any]:
    """The tasks of a configuration, built; its other entries are not looked at. Raises
    ConfigError."""
    node, scope, faults = read_config(Path(config), overrides, plugins, allow)
    node = resolve(node, faults)
    nodes = _task_nodes(node, config)
    binder = Binder(scope, faults=faults)
    built = {name: binder.node(task, place, "task") for name, (place, task) in nodes.items()}
    if binder.faults:
        raise ConfigError(binder.faults)
    return built


def _task_nodes(node: Node, config: Path) -> dict[str, tuple[str, Any]]:
    """The place and the node of each task, by its name."""
    named = {
        str(name): task for name, task in (node.get("tasks") or {}).items() if task is not None
    }
    tasks = {name: (f"tasks.{name}", task) for name, task in named.items()}
    if node.get("task") is not None:
        tasks = {Path(config).stem.removeprefix("make_"): ("task", node["task"]), **tasks}
    if not tasks:
        raise ConfigError(
            [
                "tasks: there is none to make; name one, such as `Jigsaw: {use: eval.make.Jigsaw,"
                " ...}`"
            ]
        )
    return tasks


def _describe(name: str, saved: SavedQuestions) -> Iterator[str]:
    asked = counted(saved.questions, "question")
    files = "samples.jsonl" if saved.no_parquet else f"samples.jsonl, {saved.parquet.name}"
    yield f"{name}: {asked}, {counted(len(saved.images), 'image')} in {saved.folder} ({files})"
    if saved.no_parquet:
        yield f"  no parquet: {saved.no_parquet}"
