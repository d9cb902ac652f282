"""One arm of a study: a contestant on a task, with everything that was built for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.state import Stage


@dataclass(frozen=True, eq=False)
class Arm:
    """One arm of the study: who answers (`contestant`, `changes`), which task, with which model and
    stages.

    `id` is the sha256 of everything that decides the answers; timeouts, rates and paths are no part
    of it, and of a URL it is the endpoint, unless the model has a `name`.
    `task_id` is the same of the task alone. `model` is None where no stage asks one. An arm that
    differs from another in its reader alone is not asked again: `replies_of` is the id of the one
    whose replies it reads.
    """

    contestant: str
    changes: Mapping[str, Any]
    task_name: str
    task: Any
    model: Any
    stages: Mapping[str, Stage]
    read: Any
    draws: int
    seed: int
    baseline: bool
    id: str
    task_id: str
    replies_of: str = ""

    def __repr__(self) -> str:
        return (
            f"Arm({self.contestant!r} {dict(self.changes)} on {self.task_name!r}, id"
            f" {self.id[:12]})"
        )

    @property
    def spec(self) -> dict[str, Any]:
        """What was built, defaults included, as a configuration can hold it."""
        stages = {slot: spec(stage) for slot, stage in self.stages.items()}
        return {"task": spec(self.task), "model": spec(self.model), "stages": stages}


def say_no_answer(slots: Iterable[str]) -> str:
    """What is wrong with a pipeline whose stages leave neither a call of the model, nor an answer,
    nor a reason."""
    return (
        f"no answer can come of it: none of {', '.join(slots)} asks the model or answers; "
        "put a stage last that does, such as `ask: {use: prompting.turns.Ask}`"
    )
