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


def spec(obj: Any) -> Any:
    """Return the node of YAML values that rebuilds `obj`, with defaults. Raises TypeError."""
    return _write(obj)


def identity(obj: Any) -> Any:
    """Return the node with exactly the settings that change results.

    Defaults and fields with `metadata=NOT_IDENTITY` are left out, paths keep only their last name,
    and the class's `version` is added. Stages keep their order. A model defines its own identity.
    """
    own = getattr(obj, "identity", None) if dataclasses.is_dataclass(obj) else None
    if isinstance(own, str) and callable(obj):
        return {"use": get_public_path(type(obj)), "identity": own}
    return settings(obj)


def settings(obj: Any) -> Any:
    """Return the settings that change a model's results, for the model's own `identity`."""
    node = _write(obj, as_spec=False)
    version = getattr(type(obj), "version", 1)
    if is_dataclass_object(obj) and version != 1:
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
    """Return the message about stages that never call the model, answer or abstain."""
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
        """The arm's model, and the models in the settings of its stages."""
        return list_models((self.model, *self.stages.values()))

    @property
    def spec(self) -> dict[str, Any]:
        """The task, model and stages as built, with defaults, in the form of a configuration."""
        stages = {slot: spec(stage) for slot, stage in self.stages.items()}
        return {"task": spec(self.task), "model": spec(self.model), "stages": stages}


Part = TypeVar("Part")


def find_settings(obj: Any, kind: type[Part]) -> Iterator[Part]:
    """Yield every instance of `kind` in a stage and its settings, at any depth, without searching
    inside the instances found."""
    if isinstance(obj, kind):
        yield obj
        return
    for part in list_inner_settings(obj):
        yield from find_settings(part, kind)


def list_inner_settings(obj: Any) -> Iterable[Any]:
    """Return the values that a mapping, list or object directly contains; none for plain values."""
    if isinstance(obj, Mapping):
        return obj.values()
    if is_dataclass_object(obj):
        return [getattr(obj, f.name) for f in dataclasses.fields(obj)]
    return obj if isinstance(obj, list | tuple) else ()


def get_public_path(obj: Any) -> str:
    """Return `folder.room.Name` for a class or function of looktwice, whichever file defines it;
    others keep their module."""
    parts = str(obj.__module__).split(".")
    if parts[:2] == ["looktwice", "extras"] and (
        name := get_public_name(obj.__module__, obj.__qualname__)
    ):
        return name
    own = parts[1:3] if parts[0] == "looktwice" else parts
    return ".".join([*own, obj.__qualname__])


def get_function_name(function: Any) -> str:
    """Return the public path of a function with a digest of its code, because all lambdas share
    one name."""
    name, code = get_public_path(function), getattr(function, "__code__", None)
    return f"{name} {_hash_code(code)}" if code is not None else name


def _hash_code(code: Any) -> str:
    inner = [_hash_code(c) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]
    return hashlib.sha256(code.co_code + repr((inner, code.co_names)).encode()).hexdigest()[:8]


def is_dataclass_object(obj: Any) -> bool:
    """Return whether a value is an instance of a dataclass."""
    return dataclasses.is_dataclass(obj) and not isinstance(obj, type)


def _write(obj: Any, as_spec: bool = True) -> Any:
    """Write an object as its `spec` if `as_spec`, else only the part of it that belongs to its
    identity."""
    inner = spec if as_spec else identity
    if is_dataclass_object(obj):
        return _make_node(obj, as_spec)
    if isinstance(obj, Mapping):
        pairs = {str(key): inner(value) for key, value in obj.items()}
        ordered = not as_spec and any(map(dataclasses.is_dataclass, obj.values()))
        return [list(pair) for pair in pairs.items()] if ordered else pairs
    if isinstance(obj, set | frozenset):
        obj = sorted(obj)
    if isinstance(obj, list | tuple):
        return [inner(value) for value in obj]
    if isinstance(obj, Path):
        return str(obj) if as_spec else obj.name
    if isinstance(obj, float) and not as_spec and obj.is_integer():
        return int(obj)  # 10 and 10.0 are one setting
    if obj is None or isinstance(obj, str | int | float | bool):
        return obj
    if callable(obj) and hasattr(obj, "__qualname__"):
        return get_function_name(obj)
    raise TypeError(
        f"a setting holds {type(obj).__name__}, which cannot be written into a configuration; "
        "settings are numbers, strings, paths, lists, mappings and dataclasses: a class of your own"
        " needs `@dataclass(frozen=True)` above it"
    )


def _make_node(obj: Any, as_spec: bool) -> dict[str, Any]:
    node = {"use": get_public_path(type(obj))}
    for f in dataclasses.fields(obj):
        value = getattr(obj, f.name)
        if f.init and (as_spec or _affects_identity(f, value)):
            node[f.name] = spec(value) if as_spec else identity(value)
    return node


def _affects_identity(f: Any, value: Any) -> bool:
    """Return whether the value of a field is part of the identity, that is, it differs from the
    default. A tuple equals a list of the same values, and 10 equals 10.0."""
    default = get_default(f)
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        value, default = list(value), list(default)
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (value, default))
    alike = numbers or type(value) is type(default)
    return f.metadata.get("identity", True) and not (alike and value == default)
