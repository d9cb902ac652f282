"""Finds changes under `sweep` and `each` that would have no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from looktwice.pipelines.config.classes import Faults, suggest_names
from looktwice.pipelines.config.load import OVERLAY_KEYS, suggest_place

CHANGEABLE_ENTRIES = ("task", "tasks", "models", "seed", *OVERLAY_KEYS, "contestants")


def find_change_faults(config: Mapping[str, Any]) -> list[str]:
    """Return a fault for each change under `sweep` or `each` whose target does not exist."""
    named = ("stages", "tasks", "models", "contestants")
    there: dict[str, Any] = {key: set(config.get(key) or ()) for key in named}
    for contestant in (config.get("contestants") or {}).values():
        there["stages"] |= set((contestant or {}).get("stages") or ())
    changes = [("sweep.", key, v) for key, vs in (config.get("sweep") or {}).items() for v in vs]
    for number, single in enumerate(config.get("each") or ()):
        changes += [(f"each[{number}].", str(key), value) for key, value in single.items()]
    faults = Faults()
    for entry, key, value in changes:
        if fault := _find_change_fault(entry, key, value, there):
            near = suggest_place(key.partition(".")[0], config)
            faults.note(f"{entry}{key}: {fault}{near}")
    return faults


def _find_change_fault(entry: str, key: str, value: Any, available: Mapping[str, set[str]]) -> str:
    first, _, rest = key.partition(".")
    name, _, own = rest.partition(".")
    names = available.get(first, set())
    added = first == "stages" and isinstance(value, Mapping) and "use" in value
    if first not in CHANGEABLE_ENTRIES:
        return f"{first!r} cannot be changed here{suggest_names(first, CHANGEABLE_ENTRIES)}"
    if name and first in available and name not in names and not added:
        return f"there is no {name!r} under `{first}:`{suggest_names(name, names)}"
    if first != "contestants":
        return ""
    if entry == "sweep.":
        say = f"write `{own}`, or put the change of this contestant under `each`"
        return f"a sweep applies to every contestant; {say}"
    if own.partition(".")[0] not in OVERLAY_KEYS:
        such = f"such as contestants.{name}.stages.mark.radius"
        return f"a contestant can change only {', '.join(OVERLAY_KEYS)}, {such}"
    return _find_change_fault(entry, own, value, available)
