"""What was really built, written back as nodes, and the identity that follows from it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from looktwice.pipelines.model import canonical

__all__ = ["asks", "digest", "identity", "spec"]


def spec(thing: Any) -> Any:
    """The node that builds `thing` again, defaults included: plain YAML values. Raises TypeError."""
    return _write(thing, spec, lambda f, value: True)


def identity(thing: Any) -> Any:
    """The node with all that changes results, and nothing else.

    Defaults and fields with `metadata={"identity": False}` are left out, paths keep their last name, and the
    class's `version` is added. Stages keep their order.
    """
    node = _write(thing, identity, _matters)
    version = getattr(type(thing), "version", 1)
    if isinstance(node, dict) and dataclasses.is_dataclass(thing) and version != 1:
        node["version"] = version
    return node


def digest(value: Any) -> str:
    """A short name for plain values: 16 hexadecimal digits of the sha256 of their canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def asks(stage: Any) -> bool:
    """Whether a stage may call the model: what its class says in `asks`; specialists never do, others may."""
    said = getattr(type(stage), "asks", None)
    return bool(said) if said is not None else not type(stage).__module__.startswith("looktwice.specialists.")


def _write(thing: Any, inner: Callable[[Any], Any], wanted: Callable[[Any, Any], bool]) -> Any:
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        node = {"use": f"{type(thing).__module__.removeprefix('looktwice.')}.{type(thing).__qualname__}"}
        chosen = ((f, getattr(thing, f.name)) for f in dataclasses.fields(thing) if f.init)
        return node | {f.name: inner(value) for f, value in chosen if wanted(f, value)}
    if isinstance(thing, Path):
        return thing.name if inner is identity else str(thing)
    if isinstance(thing, Mapping):
        pairs = [(str(key), inner(value)) for key, value in thing.items()]
        return [list(pair) for pair in pairs] if inner is identity else dict(pairs)
    if isinstance(thing, float) and inner is identity and thing.is_integer():
        return int(thing)  # 10 and 10.0 are one setting
    if isinstance(thing, list | tuple | set | frozenset):
        return [inner(value) for value in (sorted(thing) if isinstance(thing, set | frozenset) else thing)]
    if thing is None or isinstance(thing, str | int | float | bool):
        return thing
    if callable(thing) and hasattr(thing, "__qualname__"):
        return f"{thing.__module__}.{thing.__qualname__}"
    raise TypeError(
        f"a setting holds {type(thing).__name__}, which cannot be written into a configuration; "
        "settings are numbers, texts, paths, lists, mappings and dataclasses"
    )


def _matters(f: Any, value: Any) -> bool:
    if f.metadata.get("identity", True) is False:
        return False
    default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
    return not _same(value, default)


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        return list(value) == list(default)
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (value, default))
    return (numbers or type(value) is type(default)) and bool(value == default)
