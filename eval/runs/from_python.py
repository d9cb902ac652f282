"""Runs tasks, contestants and a model given as Python objects, and sweeps their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from looktwice.eval.display.printable import make_file_names
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.records import RunError
from looktwice.eval.runs.options import RunOptions
from looktwice.eval.runs.study import Study
from looktwice.eval.tasks.base import Task
from looktwice.pipelines.config.classes import flatten_changes, suggest_names
from looktwice.pipelines.config.plan import Plan, add_id
from looktwice.pipelines.config.spec import Arm, asks_model, digest, get_public_path, spec
from looktwice.pipelines.model import Model
from looktwice.pipelines.pipeline import Pipeline, explain_stage_fault
from looktwice.pipelines.state import Stage


def evaluate(
    task: Task | Mapping[str, Task],
    contestants: Mapping[str, Pipeline | Stage],
    model: Model | None = None,
    *,
    out: str | Path | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    reader: Stage | None = None,
    draws: int = 1,
    seed: int = 0,
    workers: int = 16,
    limit: int | None = None,
) -> Table:
    """Run every contestant on every task in the run folder `out`, resuming an earlier run; return
    the table.

    A contestant is a Pipeline or a single stage; the first is the baseline. `sweep` makes an arm of
    every combination of settings, {"mark.radius": [28, 9], "zoom": [stage, None]}, of each
    contestant that has these stages. `reader` reads replies (default `Robust`). Without `out`, each
    study gets its own folder below `runs`, named after its tasks and a hash of its arms. Raises
    TaskError and RunError; TypeError for an argument that is not a task, contestant or model, for a
    stage that needs a model if none is given, and for settings that cannot be serialized.
    """
    sweep = {place.removeprefix("stages."): levels for place, levels in (sweep or {}).items()}
    name = getattr(task, "kind", None) or getattr(task, "name", None) or "task"
    tasks = task if isinstance(task, Mapping) else {str(name): task}
    pipelines = _check_stages(tasks, contestants, model, reader, draws)
    slots = dict.fromkeys(chain.from_iterable(pipelines.values()))
    if unknown := [place for place in sweep if place.split(".")[0] not in slots]:
        raise RunError(
            f"sweep: no contestant has the stage of {unknown[0]!r}; write STAGE.SETTING, where"
            f" STAGE is one of {', '.join(slots)}"
        )
    options = RunOptions(workers=workers, limit=limit)
    arms: dict[str, Arm] = {}
    for task_name, asked in tasks.items():
        for number, (name, given) in enumerate(pipelines.items()):
            for changes, stages in _collect_sweeps(given, sweep):
                used = model if any(map(asks_model, stages.values())) else None
                made_of = asked, used, stages, reader or Robust(), draws, seed
                arm = add_id(Arm(name, changes, task_name, *made_of, number == 0, "", ""))
                if twin := arms.get(arm.id):
                    raise RunError(
                        f"{name!r} on {task_name!r} is identical to {twin.contestant!r} on"
                        f" {twin.task_name!r}; remove one of them"
                    )
                arms[arm.id] = arm
    own = make_file_names(["+".join(tasks)])["+".join(tasks)]
    folder = Path("runs", f"{own}-{digest([*arms])[:8]}") if out is None else Path(out)
    levels = {f"stages.{p}": [*map(_simplify_level, values)] for p, values in sweep.items()}
    config = {"sweep": levels} if levels else {}
    plan = Plan(folder.name, tuple(arms.values()), config=config)
    outcome = Study(plan, folder.parent, options)()
    if outcome.why:
        raise RunError(
            f"{outcome.why}; the records so far are in {folder}, and the same call resumes later"
        )
    if outcome.is_stopped:
        raise KeyboardInterrupt(f"the study was stopped; the records so far are in {folder}")
    return score_table([folder], plan=plan)


def _simplify_level(level: Any) -> Any:
    """Return a level of a sweep in the form of a configuration: an object becomes its spec."""
    return spec(level) if is_dataclass(level) else level


def _collect_sweeps(
    stages: Mapping[str, Stage], sweep: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[dict[str, Any], dict[str, Stage]]]:
    """Yield the changes and the stages of every combination of those settings whose stage
    exists."""
    own = {place: levels for place, levels in sweep.items() if place.split(".")[0] in stages}
    for levels in product(*own.values()):
        changed, changes = dict[str, Any](stages), dict[str, Any]()
        for place, level in zip(own, levels, strict=True):
            slot, *path = place.split(".")
            changed[slot] = _replace_setting(changed[slot], path, level, place)
            changes[f"stages.{place}"] = _simplify_level(level)
        yield (
            flatten_changes(changes),
            {s: stage for s, stage in changed.items() if stage is not None},
        )


def _replace_setting(thing: Any, path: Sequence[str], value: Any, place: str) -> Any:
    """Return a copy of a stage with another value at a path of its settings. Raises RunError if the
    path does not exist."""
    if not path:
        return value
    names = [f.name for f in fields(thing)] if is_dataclass(thing) else []
    if path[0] not in names:
        hint = suggest_names(path[0], names) or f"; its settings: {', '.join(names) or 'none'}"
        raise RunError(f"sweep: {place}: no setting {path[0]!r}{hint}")
    inner = _replace_setting(getattr(thing, path[0]), path[1:], value, place)
    return replace(thing, **{path[0]: inner})


def _check_stages(
    tasks: Mapping[str, Task],
    contestants: Mapping[str, Pipeline | Stage],
    model: Model | None,
    reader: Stage | None,
    draws: int,
) -> dict[str, dict[str, Stage]]:
    """Return the stages of each contestant. Raises TypeError for an invalid task, contestant, model
    or reader, and ValueError for invalid draws."""
    for task in tasks.values():
        _require_member(
            "task", task, "facts", "a task such as Folder('questions'), or a mapping of tasks"
        )
    _require_member(
        "contestants", contestants, "items", "a mapping such as {'plain': Pipeline(...)}"
    )
    if model is not None:
        _require_member("model", model, "identity", "a model such as ChatAPI(...)")
    if reader is not None and (fault := explain_stage_fault(reader)):
        raise TypeError(f"reader {fault}")
    if not isinstance(draws, int) or draws < 1:
        raise ValueError(f"`draws` must be a whole number of at least 1, got {draws!r}")
    pipelines = dict[str, dict[str, Stage]]()
    for name, contestant in contestants.items():
        if not isinstance(contestant, Pipeline) and (fault := explain_stage_fault(contestant)):
            raise TypeError(f"contestants[{name!r}] {fault}")
        given = contestant.stages if isinstance(contestant, Pipeline) else {"answer": contestant}
        pipelines[name] = {slot: stage for slot, stage in given.items() if stage is not None}
        for slot, stage in pipelines[name].items() if model is None else ():
            if _needs_model(stage):
                raise TypeError(
                    f"contestants[{name!r}]: its stage {slot!r} calls a model, but none is given;"
                    " pass one, as in evaluate(task, contestants, ChatAPI(...))"
                )
    return pipelines


def _needs_model(stage: Any) -> bool:
    """Return whether a stage of `prompting` needs a model and has none of its own; False for other
    stages, for which it is unknown."""
    if not asks_model(stage) or not get_public_path(type(stage)).startswith("prompting."):
        return False
    return not any(hasattr(getattr(stage, setting.name), "identity") for setting in fields(stage))


def _require_member(name: str, given: object, member: str, wanted: str) -> None:
    """Raise TypeError unless an argument has the member that identifies its kind."""
    if isinstance(given, type):
        raise TypeError(f"{name} is the class {given.__name__}; write {given.__name__}(...)")
    if not hasattr(given, member):
        raise TypeError(f"`{name}` must be {wanted}, got {given!r:.80}")
