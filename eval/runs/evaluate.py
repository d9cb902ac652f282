"""Runs a study from Python: takes tasks, contestants and a model, and returns a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from looktwice.eval.display.table import Table, score_table
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.records import RunError
from looktwice.eval.runs.predict import RunOptions
from looktwice.eval.runs.study import Study
from looktwice.eval.tasks.base import Task
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.plan import Plan, with_id
from looktwice.pipelines.config.spec import asks_model
from looktwice.pipelines.model import Model
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.state import Stage


def evaluate(
    task: Task | Mapping[str, Task],
    contestants: Mapping[str, Pipeline | Stage],
    model: Model | None = None,
    *,
    out: str | Path = "runs/evaluate",
    reader: Stage | None = None,
    draws: int = 1,
    seed: int = 0,
    workers: int = 16,
    limit: int | None = None,
) -> Table:
    """Run every contestant on every task in the run folder `out`, resuming an earlier run; return
    the table.

    A contestant is a Pipeline or a single stage; the first is the baseline. `reader` reads replies
    (default `Robust`). Raises TaskError and RunError, and TypeError if the settings of a contestant
    cannot be serialized.
    """
    name = getattr(task, "kind", None) or getattr(task, "name", None) or "task"
    tasks = task if isinstance(task, Mapping) else {str(name): task}
    arms = tuple(
        _make_arm(
            name, contestant, number == 0, task_name, one, model, reader or Robust(), draws, seed
        )
        for task_name, one in tasks.items()
        for number, (name, contestant) in enumerate(contestants.items())
    )
    twins: dict[str, Arm] = {}
    for arm in arms:
        if (twin := twins.setdefault(arm.id, arm)) is not arm:
            same = (
                f"{arm.contestant!r} on {arm.task_name!r} is the same as {twin.contestant!r} on"
                f" {twin.task_name!r}"
            )
            raise RunError(f"{same}, and would take its place in the table; drop one")
    folder = Path(out)
    plan = Plan(folder.name, arms)
    outcome = Study(plan, folder.parent, RunOptions(workers=workers, limit=limit))()
    if outcome.why:
        raise RunError(
            f"{outcome.why}; the records so far are in {folder}, and the same call goes on later"
        )
    if outcome.stopped:
        raise KeyboardInterrupt(f"the study was stopped; the records so far are in {folder}")
    return score_table([folder], plan=plan)


def _make_arm(
    name: str,
    contestant: Pipeline | Stage,
    baseline: bool,
    task_name: str,
    task: Task,
    model: Model | None,
    reader: Stage,
    draws: int,
    seed: int,
) -> Arm:
    given: Mapping[str, Any] = (
        contestant.stages if isinstance(contestant, Pipeline) else {"answer": contestant}
    )
    stages = {slot: stage for slot, stage in given.items() if stage is not None}
    if wrong := [
        f"{slot!r} is {type(stage).__name__}"
        for slot, stage in stages.items()
        if not callable(stage)
    ]:
        raise TypeError(
            f"contestants[{name!r}] is to be a stage or a Pipeline of stages, but its {wrong[0]}"
        )
    used = model if any(asks_model(stage) for stage in stages.values()) else None
    return with_id(
        Arm(name, {}, task_name, task, used, stages, reader, draws, seed, baseline, "", "")
    )
