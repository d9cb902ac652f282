"""Writes built objects back as nodes, derives their identity, and defines the arm of a study."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from looktwice.pipelines.config.classes import get_default
from looktwice.pipelines.extensions import get_public_name
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.pipeline import list_models
from looktwice.pipelines.state import Stage

NOT_IDENTITY: Mapping[str, Any] = {"identity": False}
"""`field(metadata=NOT_IDENTITY)` marks a setting that cannot change results, such as a timeout."""


def spec(thing: Any) -> Any:
    """Return the node of YAML values that rebuilds `thing`, with defaults. Raises TypeError."""
    return _write(thing)


def identity(thing: Any) -> Any:
    """Return the node with exactly the settings that change results.

    Defaults and fields with `metadata=NOT_IDENTITY` are left out, paths keep only their last name,
    and the class's `version` is added. Stages keep their order. A model defines its own identity.
    """
    own = getattr(thing, "identity", None) if dataclasses.is_dataclass(thing) else None
    if isinstance(own, str) and callable(thing):
        return {"use": get_public_path(type(thing)), "identity": own}
    return settings(thing)


def settings(thing: Any) -> Any:
    """Return the identity of a model's settings, from which the model makes its own identity."""
    node = _write(thing, whole=False)
    version = getattr(type(thing), "version", 1)
    if is_object(thing) and version != 1:
        node["version"] = version
    return node


def digest(value: Any) -> str:
    """Return a short name for plain values: the first 16 hexadecimal digits of the sha256 of their
    canonical JSON."""
    return hashlib.sha256(write_canonical(value).encode()).hexdigest()[:16]


def asks_model(stage: Any) -> bool:
    """Return whether a stage may call the model: yes, unless its `asks` is False."""
    return bool(getattr(stage, "asks", True))


def may_answer(stage: Any) -> bool:
    """Return whether a stage can produce an answer; stages in `prompting` that ask no model only
    prepare or read."""
    return asks_model(stage) or not get_public_path(type(stage)).startswith("prompting.")


def describe_missing_answer(slots: Iterable[str]) -> str:
    """Describe the fault of stages that produce no model call, answer or reason."""
    return (
        f"these stages cannot answer: none of {', '.join(slots)} asks the model or answers; add a"
        " last stage that does, such as `ask: {use: prompting.turns.Ask}`"
    )


@dataclass(frozen=True, eq=False)
class Arm:
    """One arm of the study: which contestant (`contestant`, `changes`) answers which task, with
    which model and stages.

    `id` is the beginning of the sha256 of everything that decides the answers: task, model, stages
    and seed. Timeouts, rates and paths are not part of it; a URL counts by its endpoint, unless the
    model has a `name`. `task_id` is the same for the task alone. `model` is None if no stage asks
    one. An arm that differs from another only in its reader is not asked again: `replies_of` is the
    id of the arm whose replies it reads.
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
    baseline: bool = False
    id: str = ""
    task_id: str = ""
    replies_of: str = ""

    def __repr__(self) -> str:
        return (
            f"Arm({self.contestant!r} {dict(self.changes)} on {self.task_name!r}, id"
            f" {self.id[:12]})"
        )

    @property
    def models(self) -> list[Any]:
        """Its model, and the models in the settings of its stages."""
        return list_models((self.model, *self.stages.values()))

    @property
    def spec(self) -> dict[str, Any]:
        """The task, model and stages as built, with defaults, in the form of a configuration."""
        stages = {slot: spec(stage) for slot, stage in self.stages.items()}
        return {"task": spec(self.task), "model": spec(self.model), "stages": stages}


Part = TypeVar("Part")


def find_settings(thing: Any, kind: type[Part]) -> Iterator[Part]:
    """Yield every object of a class among a stage and its settings, at any depth, without searching
    inside the objects found."""
    if isinstance(thing, kind):
        yield thing
        return
    for part in list_inner_settings(thing):
        yield from find_settings(part, kind)


def list_inner_settings(thing: Any) -> Iterable[Any]:
    """Return the values in a mapping, list or object; none for plain values."""
    if isinstance(thing, Mapping):
        return thing.values()
    if is_object(thing):
        return [getattr(thing, f.name) for f in dataclasses.fields(thing)]
    return thing if isinstance(thing, list | tuple) else ()


def get_public_path(thing: Any) -> str:
    """Return `folder.room.Name` for a class or function of looktwice, whichever file defines it;
    others keep their module."""
    parts = str(thing.__module__).split(".")
    if parts[:2] == ["looktwice", "extras"] and (
        name := get_public_name(thing.__module__, thing.__qualname__)
    ):
        return name
    own = parts[1:3] if parts[0] == "looktwice" else parts
    return ".".join([*own, thing.__qualname__])


def get_function_name(function: Any) -> str:
    """Return the public path of a function with a digest of its code: all lambdas share one
    name."""
    name, code = get_public_path(function), getattr(function, "__code__", None)
    return f"{name} {_code_digest(code)}" if code is not None else name


def _code_digest(code: Any) -> str:
    inner = [_code_digest(c) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]
    return hashlib.sha256(code.co_code + repr((inner, code.co_names)).encode()).hexdigest()[:8]


def is_object(thing: Any) -> bool:
    """Return whether this is an object with settings."""
    return dataclasses.is_dataclass(thing) and not isinstance(thing, type)


def _write(thing: Any, whole: bool = True) -> Any:
    """Write an object as its `spec` if `whole`, else as the part that belongs to its identity."""
    inner = spec if whole else identity
    if is_object(thing):
        return _node(thing, whole)
    if isinstance(thing, Mapping):
        pairs = {str(key): inner(value) for key, value in thing.items()}
        ordered = not whole and any(map(dataclasses.is_dataclass, thing.values()))
        return [list(pair) for pair in pairs.items()] if ordered else pairs
    if isinstance(thing, set | frozenset):
        thing = sorted(thing)
    if isinstance(thing, list | tuple):
        return [inner(value) for value in thing]
    if isinstance(thing, Path):
        return str(thing) if whole else thing.name
    if isinstance(thing, float) and not whole and thing.is_integer():
        return int(thing)  # 10 and 10.0 are one setting
    if thing is None or isinstance(thing, str | int | float | bool):
        return thing
    if callable(thing) and hasattr(thing, "__qualname__"):
        return get_function_name(thing)
    raise TypeError(
        f"a setting holds {type(thing).__name__}, which cannot be written into a configuration; "
        "settings are numbers, texts, paths, lists, mappings and dataclasses: a class of your own"
        " needs `@dataclass(frozen=True)` above it"
    )


def _node(thing: Any, whole: bool) -> dict[str, Any]:
    node = {"use": get_public_path(type(thing))}
    for f in dataclasses.fields(thing):
        value = getattr(thing, f.name)
        if f.init and (whole or _affects_identity(f, value)):
            node[f.name] = spec(value) if whole else identity(value)
    return node


def _affects_identity(f: Any, value: Any) -> bool:
    """Return whether the value of a field is part of the identity, that is, it differs from the
    default. A tuple equals a list, and a whole number equals the float."""
    default = get_default(f)
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        value, default = list(value), list(default)
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (value, default))
    alike = numbers or type(value) is type(default)
    return f.metadata.get("identity", True) and not (alike and value == default)
