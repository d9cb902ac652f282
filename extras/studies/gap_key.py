"""The key `gap` of a study: an arm for each setting in which two contestants differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Annotated, Any

from typing_extensions import TypedDict

from looktwice.pipelines.config.classes import Faults
from looktwice.pipelines.config.keys import FORBID_EXTRA, Key
from looktwice.pipelines.config.spec import Arm, asks_model, settings, spec

GapEntry = TypedDict(
    "GapEntry",
    {
        "from": Annotated[str, "The contestant to start from.", "from: as_official"],
        "to": Annotated[str, "The contestant to compare with it.", "to: as_vlmevalkit"],
    },
)
GapEntry.__doc__ = """Two contestants; each setting in which they differ is changed alone, and the \
report gives its effect."""
GapEntry.__pydantic_config__ = FORBID_EXTRA  # type: ignore[attr-defined]


def make_gap_arms(arms: Sequence[Arm], gap: Mapping[str, str] | None, faults: Faults) -> list[Arm]:
    """Build, for each task and each factor in which two contestants differ, the first contestant's
    arm with this factor of the second.

    `gap` names the two contestants under `from` and `to`. A factor is a stage, a setting of a stage
    that asks (so that the order of images and the decoding are separate factors), the model, or the
    reader. The arm's `changes` hold the path of the factor and its new value. Only arms without
    changes are used. Errors are added to `faults`.
    """
    # a missing entry is reported elsewhere
    if not gap or not arms or not {"from", "to"} <= gap.keys():
        return []
    sides: dict[str, dict[str, Arm]] = {name: {} for name in (gap["from"], gap["to"])}
    for arm in arms:
        if arm.contestant in sides and not arm.changes:
            sides[arm.contestant].setdefault(arm.task_id, arm)
    names = ", ".join(dict.fromkeys(arm.contestant for arm in arms)) or "none"
    for name, side in sides.items():
        if not side:
            faults.note(f"gap: no contestant {name!r} without changes; use one of {names}")
    if len(sides) < 2:
        faults.note(f"gap: from and to are both {gap['from']!r}; name two different contestants")
        return []
    start, end = sides.values()
    pairs = [(arm, end[task]) for task, arm in start.items() if task in end]
    return [arm for a, b in pairs for arm in _list_single_changes(a, b, faults)]


def _list_single_changes(a: Arm, b: Arm, faults: Faults) -> Iterator[Arm]:
    common = [slot for slot in a.stages if slot in b.stages]
    if common != [slot for slot in b.stages if slot in a.stages]:
        faults.note(
            f"gap: {a.contestant!r} and {b.contestant!r} have the stages {', '.join(common)} in"
            " different orders"
        )
        return
    for path in _list_factors(a, b):
        try:
            yield _swap_setting(a, b, path)
        except (ValueError, TypeError) as exc:
            faults.note(
                f"gap: {a.contestant!r} with {path} of {b.contestant!r} cannot be built ({exc})"
            )


def _list_factors(a: Arm, b: Arm) -> Iterator[str]:
    """Yield the paths of the settings in which two arms differ, in the order in which they take
    effect."""

    def are_different(name: str, one: Any, two: Any) -> bool:
        return bool(spec(getattr(one, name)) != spec(getattr(two, name)))

    for slot in _merge_slots(a, b):
        mine, theirs = a.stages.get(slot), b.stages.get(slot)
        if mine is not None and type(mine) is type(theirs) and asks_model(mine):
            for f in fields(mine):  # type: ignore[arg-type]  # a stage is a dataclass
                if f.init and are_different(f.name, mine, theirs):
                    yield f"stages.{slot}.{f.name}"
        elif spec(mine) != spec(theirs):
            yield f"stages.{slot}"
    yield from (path for path in ("model", "read") if are_different(path, a, b))


def _merge_slots(a: Arm, b: Arm) -> list[str]:
    """Return the slots of both arms: those of `a`, into which each slot that only `b` has is
    inserted after its predecessor in `b`."""
    order = list(a.stages)
    position = 0
    for slot in b.stages:
        if slot not in order:
            order.insert(position, slot)
        position = order.index(slot) + 1
    return order


def _swap_setting(a: Arm, b: Arm, path: str) -> Arm:
    """Return the arm `a` with one setting of `b`. Raises ValueError if the settings are
    incompatible."""
    value: Any
    if path in ("model", "read"):
        value = getattr(b, path)
        return replace(a, **{path: value}, changes={path: simplify_node(settings(value))})
    slot, _, name = path.removeprefix("stages.").partition(".")
    stage: Any = b.stages.get(slot)
    value = stage
    if name:
        value = getattr(stage, name)
        stage = replace(a.stages[slot], **{name: value})  # type: ignore[type-var]
    merged = {**a.stages, slot: stage}
    ordered = {name: merged.get(name) for name in _merge_slots(a, b)}
    stages = {name: stage for name, stage in ordered.items() if stage is not None}
    lacks = a.model is None and any(map(asks_model, stages.values()))
    model = b.model if lacks else a.model
    return replace(a, stages=stages, model=model, changes={path: simplify_node(settings(value))})


def simplify_node(node: Any) -> Any:
    """Shorten a node for display to its class with the settings that differ from the defaults;
    return a plain value unchanged."""
    if not isinstance(node, Mapping) or "use" not in node:
        return node
    name = str(node["use"]).rpartition(".")[2]
    shown = [f"{k}={simplify_node(v)}" for k, v in node.items() if k not in ("use", "version")]
    return f"{name}({', '.join(shown)})" if shown else name


class Gap(Key):
    """The study key `gap`, which decomposes the difference between two contestants."""

    schema = GapEntry
    about = "Decomposes the difference between two contestants, one setting at a time."
    example = "gap: {from: as_official, to: as_vlmevalkit}"

    def add_arms(self, value: Any, arms: Sequence[Arm], faults: Faults) -> Sequence[Arm]:
        """Return the first contestant's arms with one factor changed to the second's, for each task
        and factor."""
        return make_gap_arms(arms, value, faults)
