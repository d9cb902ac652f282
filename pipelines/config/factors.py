"""The settings in which two contestants differ, and arms that change one of these settings at a
time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.spec import asks_model, settings, spec


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
    if (
        not gap or not arms or not {"from", "to"} <= gap.keys()
    ):  # what is missing is a fault of its own
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
