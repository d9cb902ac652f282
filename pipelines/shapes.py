"""The outer shape of a configuration: which entries there are and what kind of thing each holds."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

__all__ = ["CHANGEABLE", "name_faults", "shape_faults"]

Node = dict[str, Any]
Nodes = dict[str, Node | None]
Words = str | list[str]
CHANGEABLE = ("task", "tasks", "model", "models", "stages", "read", "seed", "draws")
EXTRA = "extra_forbidden"
CLOSED = ConfigDict(extra="forbid")


class Needs(TypedDict, total=False):
    """What must be there for a contestant to take part."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    env: Words
    file: Words


Gap = TypedDict("Gap", {"from": str, "to": str})
Gap.__pydantic_config__ = CLOSED  # type: ignore[attr-defined]


class Contestant(TypedDict, total=False):
    """An overlay of the file by name."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    stages: Nodes
    extend: bool
    model: str | Node | None
    only: list[str]
    needs: Needs
    read: Node
    draws: Annotated[int, Field(ge=1)]


class Published(TypedDict):
    """What others published of one contestant, in percent by task, and where it stands: shown beside, never run."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    source: str
    accuracy: dict[str, float]


class Study(TypedDict, total=False):
    """A whole configuration, its includes already laid below it."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    name: str
    note: str
    task: Node | None
    tasks: Nodes | None
    model: str | Node | None
    models: Nodes | None
    stages: Nodes | None
    read: Node | None
    seed: int
    draws: Annotated[int, Field(ge=1)]
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] | None
    each: list[Node] | None
    contestants: dict[str, Contestant | None] | None
    baseline: str | None
    gap: Gap | None
    published: dict[str, Published] | None


KNOWN: dict[int, type] = {1: Study, 3: Contestant, 4: Needs}


def shape_faults(config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Entries that do not belong where they stand, and entries that hold the wrong kind of thing, with their places."""
    try:
        TypeAdapter(Study).validate_python(dict(config))
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_context=False)
        strange = [_strange(e["loc"]) for e in errors if e["type"] == EXTRA]
        wrong = [_wrong(e["loc"], e["msg"], e["input"]) for e in errors if e["type"] != EXTRA]
        return list(dict.fromkeys(strange)), list(dict.fromkeys(wrong))
    return [], []


def name_faults(config: Mapping[str, Any]) -> list[str]:
    """Changes under `sweep` and `each` that would change nothing, because what they name is not there."""
    slots = set(config.get("stages") or ())
    for contestant in (config.get("contestants") or {}).values():
        slots |= set((contestant or {}).get("stages") or ())
    there = {"stages": slots, "tasks": set(config.get("tasks") or ()), "models": set(config.get("models") or ())}
    sweep, each = config.get("sweep") or {}, config.get("each") or ()
    changes = [(f"sweep.{key}", key, value) for key, values in sweep.items() for value in values]
    changes += [(f"each[{i}].{key}", key, value) for i, one in enumerate(each) for key, value in one.items()]
    faults = (_name_fault(place, str(key), value, there) for place, key, value in changes)
    return list(dict.fromkeys(fault for fault in faults if fault))


def _name_fault(place: str, key: str, value: Any, there: Mapping[str, set[str]]) -> str:
    first, _, rest = key.partition(".")
    if first not in CHANGEABLE:
        return f"{place}: {first!r} is nothing that can be changed{_near(first, CHANGEABLE)}"
    name, known = rest.partition(".")[0], there.get(first, set())
    added = first == "stages" and isinstance(value, Mapping) and "use" in value
    if name and first in there and name not in known and not added:
        return f"{place}: there is no {name!r} under `{first}:`{_near(name, known)}"
    return ""


def _strange(loc: tuple[int | str, ...]) -> str:
    known = list(KNOWN.get(len(loc), Study).__annotations__)
    return f"{'.'.join(map(str, loc))}: no such entry{_near(str(loc[-1]), known)}; there are {', '.join(known)}"


def _wrong(loc: tuple[int | str, ...], message: str, found: Any) -> str:
    shown, here = repr(found), ".".join(str(part) for part in loc if not _is_tag(str(part)))
    return f"{here}: {message[0].lower()}{message[1:]}, found {shown if len(shown) < 80 else shown[:77] + '...'}"


def _is_tag(part: str) -> bool:
    """Whether pydantic put this word into the place to name a member of a union."""
    return "[" in part or part in ("str", "dict", "list", "none")


def _near(word: str, words: Any) -> str:
    near = difflib.get_close_matches(word, [str(w) for w in words], 1)
    return f"; did you mean {near[0]!r}?" if near else ""
