"""One arm of a study: a contestant on a task, with everything that was built for it; and the arms
that change one of the settings in which two contestants differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from looktwice.pipelines.config.spec import asks_model, settings, spec
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


def make_gap_arms(
    arms: Sequence[Arm], gap: Mapping[str, str] | None, faults: list[str]
) -> list[Arm]:
    """For each task the first contestant's arm with one factor of the second, for each factor in
    which they differ.

    `gap` names the two under `from` and `to`. A factor is a stage, a setting of a stage that asks
    (so that the order of images and the decoding are told apart), the model, or the reader. The
    changed place and what it became stand in the arm's `changes`. Only arms without changes of
    their own are looked at. What cannot be done is noted in `faults`.
    """
    # what is missing is a fault of its own
    if not gap or not arms or not {"from", "to"} <= gap.keys():
        return []
    sides: dict[str, dict[str, Arm]] = {name: {} for name in (gap["from"], gap["to"])}
    for arm in arms:
        if arm.contestant in sides and not arm.changes:
            sides[arm.contestant].setdefault(arm.task_id, arm)
    known = ", ".join(dict.fromkeys(arm.contestant for arm in arms))
    missing = [name for name in sides if not sides[name]]
    faults += [
        f"gap: no contestant {name!r} without changes; there are {known or 'none'}"
        for name in missing
    ]
    if len(sides) < 2:
        faults.append(f"gap: from and to are both {gap['from']!r}; name two contestants")
    if missing or len(sides) < 2:
        return []
    start, end = sides.values()
    return [
        arm
        for task, a in start.items()
        if task in end
        for arm in _single_changes(a, end[task], faults)
    ]


def _single_changes(a: Arm, b: Arm, faults: list[str]) -> Iterator[Arm]:
    common = [slot for slot in a.stages if slot in b.stages]
    if common != [slot for slot in b.stages if slot in a.stages]:
        fault = (
            f"gap: {a.contestant!r} and {b.contestant!r} have the stages {', '.join(common)} in"
            " another order"
        )
        faults += [fault] if fault not in faults else []
        return
    for place in _factors(a, b):
        try:
            yield _changed(a, b, place)
        except (ValueError, TypeError) as exc:
            fault = (
                f"gap: {a.contestant!r} with {place} of {b.contestant!r} cannot be built ({exc})"
            )
            faults += [fault] if fault not in faults else []


def _factors(a: Arm, b: Arm) -> Iterator[str]:
    """The places in which two arms differ, in the order in which they take effect."""
    for slot in _slots(a, b):
        mine, other = a.stages.get(slot), b.stages.get(slot)
        if (
            mine is None
            or other is None
            or spec(mine)["use"] != spec(other)["use"]
            or not asks_model(mine)
        ):
            yield from [f"stages.{slot}"] if spec(mine) != spec(other) else []
        else:
            named = [f.name for f in fields(mine) if f.init]  # type: ignore[arg-type]
            alike = (
                name for name in named if spec(getattr(mine, name)) != spec(getattr(other, name))
            )
            yield from (f"stages.{slot}.{name}" for name in alike)
    if spec(a.model) != spec(b.model):
        yield "model"
    if spec(a.read) != spec(b.read):
        yield "read"


def _slots(a: Arm, b: Arm) -> list[str]:
    """All slots of both: those of `a`, and each further one behind the one that it follows in
    `b`."""
    order = list(a.stages)
    place = 0
    for slot in b.stages:
        if slot not in order:
            order.insert(place, slot)
        place = order.index(slot) + 1
    return order


def _changed(a: Arm, b: Arm, place: str) -> Arm:
    """The arm `a` with one place of `b`. Raises ValueError where the two settings do not go
    together."""
    if place in ("model", "read"):
        changed = replace(a, model=b.model) if place == "model" else replace(a, read=b.read)
        return replace(changed, changes={place: describe(settings(getattr(b, place)))})
    slot, _, name = place.removeprefix("stages.").partition(".")
    stage: Any = b.stages.get(slot)
    value = stage
    if name:
        value = getattr(stage, name)
        stage = replace(a.stages[slot], **{name: value})  # type: ignore[type-var]
    merged = {known: stage if known == slot else a.stages.get(known) for known in _slots(a, b)}
    stages = {known: one for known, one in merged.items() if one is not None}
    model = (
        a.model
        if a.model is not None or not any(asks_model(one) for one in stages.values())
        else b.model
    )
    return replace(a, stages=stages, model=model, changes={place: describe(settings(value))})


def describe(node: Any) -> Any:
    """A node as a change shows it: its class with the settings that are no defaults; a plain value
    as it is."""
    if not isinstance(node, Mapping) or "use" not in node:
        return node
    told = ", ".join(
        f"{name}={describe(value)}"
        for name, value in node.items()
        if name not in ("use", "version")
    )
    return (
        f"{str(node['use']).rpartition('.')[2]}({told})"
        if told
        else str(node["use"]).rpartition(".")[2]
    )
