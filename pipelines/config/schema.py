"""What may stand where in a configuration: its entries, what each holds, and what the type of a
setting accepts."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from looktwice.pipelines.config.entries import Contestant, Needs, StudyConfig
from looktwice.pipelines.config.suggest import did_you_mean

Kind = Literal["task", "stage", "model"]

PLAIN = (int, float, str, bool, bytes, type(None))


def members(hint: Any) -> Iterator[Any]:
    """The alternatives of a union, or the hint alone."""
    if get_origin(hint) in (Union, types.UnionType):
        for inner in get_args(hint):
            yield from members(inner)
    else:
        yield hint


def is_plain(hint: Any) -> bool:
    """Whether no object can stand here, only numbers, texts, truth values or paths."""
    return all(h in PLAIN or h is Path or get_origin(h) is Literal for h in members(hint))


def holds_path(hint: Any) -> bool:
    """Whether a text given here is the path of a file or folder."""
    return Path in members(hint) and str not in members(hint)


def inner_hint(hint: Any, key: Any) -> Any:
    """The type of what stands under a key or number of a list, tuple or mapping that is given
    here."""
    for member in members(hint):
        origin, args = get_origin(member), get_args(member)
        if not (isinstance(origin, type) and issubclass(origin, Collection)):
            continue
        if issubclass(origin, Mapping):
            return args[1]
        return (
            args[0]
            if origin is not tuple or args[-1] is Ellipsis
            else dict(enumerate(args)).get(key, Any)
        )
    return Any


def dataclass_in(hint: Any) -> type | None:
    """The dataclass that a mapping given here stands for, if there is one."""
    return next(
        (h for h in members(hint) if isinstance(h, type) and dataclasses.is_dataclass(h)), None
    )


def type_hints(cls: type) -> dict[str, Any]:
    """The types of a class's fields by name; empty where they cannot be looked up."""
    try:
        return get_type_hints(cls)
    except NameError:  # a name that a plugin imports for the type checker alone
        return {}


def kind_of(cls: type) -> Kind | None:
    """What a class makes, by what it can do: tasks are iterated, models have an identity, stages
    are only called."""
    if hasattr(cls, "__iter__") and hasattr(cls, "facts"):
        return "task"
    if any("__call__" in vars(base) for base in cls.__mro__):
        return "model" if hasattr(cls, "identity") else "stage"
    return None


def misfit(cls: type, hint: Any) -> str:
    """Why an object of the class cannot stand where the hint asks for another class; empty where it
    can.

    For a function of a protocol it is told by what the two give, so that a finder of faces is no
    detector; where that is not declared, it may fit.
    """
    asked = {
        each.__name__: _given_by(each)
        for each in members(hint)
        if getattr(each, "_is_protocol", False)
    }
    values = tuple(
        each for each in members(hint) if isinstance(each, type) and dataclasses.is_dataclass(each)
    )
    if values and not asked and not issubclass(cls, values):
        return f"expected {' or '.join(each.__name__ for each in values)}, found {cls.__name__}"
    given = _given_by(cls)
    if (
        not asked
        or given is None
        or any(wanted is None or issubclass(given, wanted) for wanted in asked.values())
    ):
        return ""
    wanted = " or ".join(
        f"a {name}, which gives {each.__name__}," for name, each in asked.items() if each
    )
    return f"expected {wanted} and {cls.__name__} gives {given.__name__}"


def _given_by(cls: type) -> type | None:
    """The class of what calling an object of `cls` gives, where it is declared and a class."""
    try:
        given = get_type_hints(cls.__call__).get("return")
    except (NameError, AttributeError):
        return None
    return given if isinstance(given, type) else None


def check_kind(cls: type, wanted: Kind | None) -> None:
    """Raises ValueError where a class makes another kind of thing than its place asks for, or lacks
    a part of it."""
    found = kind_of(cls)
    if wanted is None:
        return
    if found not in (wanted, None):
        raise ValueError(f"a {wanted} belongs here, and {cls.__name__} makes a {found}")
    has = (
        {*dir(cls), *(f.name for f in dataclasses.fields(cls))}
        if dataclasses.is_dataclass(cls)
        else {*dir(cls)}
    )
    has -= {"__call__"} if not any("__call__" in vars(base) for base in cls.__mro__) else set()
    lacking = [said for part, said in PARTS[wanted].items() if part not in has]
    if lacking:
        whole = ", ".join(PARTS[wanted].values())
        raise ValueError(
            f"a {wanted} has {whole}; {cls.__name__} lacks {', '.join(lacking)} (docs/guide.md"
            " shows one)"
        )


PARTS: Mapping[Kind, Mapping[str, str]] = {
    "task": {"facts": "`facts`", "__len__": "`__len__`", "__iter__": "`__iter__`"},
    "stage": {"__call__": "`__call__(self, state, model)`"},
    "model": {"identity": "`identity`", "__call__": "`__call__(self, messages, draw, options)`"},
}
"""What a class must have to be of a kind, and how that is said."""

CHANGEABLE = ("task", "tasks", "model", "models", "stages", "read", "seed", "draws")
EXTRA = "extra_forbidden"
GONE = {
    "extend": (
        "a contestant's stages are laid over the file's now, so drop `extend`; "
        "`replace: true` lets them stand alone"
    )
}
KNOWN: dict[int, type] = {1: StudyConfig, 3: Contestant, 4: Needs}


def shape_faults(config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Entries that do not belong where they stand, and entries that hold the wrong kind of thing,
    with their places."""
    try:
        TypeAdapter(StudyConfig).validate_python(dict(config))
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_context=False)
        strange = [_strange(e["loc"]) for e in errors if e["type"] == EXTRA]
        wrong = [_wrong(e["loc"], e["msg"], e["input"]) for e in errors if e["type"] != EXTRA]
        return list(dict.fromkeys(strange)), list(dict.fromkeys(wrong))
    return [], []


def name_faults(config: Mapping[str, Any]) -> list[str]:
    """Changes under `sweep` and `each` that would change nothing, because what they name is not
    there."""
    slots = set(config.get("stages") or ())
    for contestant in (config.get("contestants") or {}).values():
        slots |= set((contestant or {}).get("stages") or ())
    there = {
        "stages": slots,
        "tasks": set(config.get("tasks") or ()),
        "models": set(config.get("models") or ()),
    }
    sweep, each = config.get("sweep") or {}, config.get("each") or ()
    changes = [(f"sweep.{key}", key, value) for key, values in sweep.items() for value in values]
    changes += [
        (f"each[{i}].{key}", key, value) for i, one in enumerate(each) for key, value in one.items()
    ]
    faults = (_name_fault(place, str(key), value, there) for place, key, value in changes)
    return list(dict.fromkeys(fault for fault in faults if fault))


def _name_fault(place: str, key: str, value: Any, there: Mapping[str, set[str]]) -> str:
    first, _, rest = key.partition(".")
    if first not in CHANGEABLE:
        return f"{place}: {first!r} is nothing that can be changed{did_you_mean(first, CHANGEABLE)}"
    name, known = rest.partition(".")[0], there.get(first, set())
    added = first == "stages" and isinstance(value, Mapping) and "use" in value
    if name and first in there and name not in known and not added:
        return f"{place}: there is no {name!r} under `{first}:`{did_you_mean(name, known)}"
    return ""


def _strange(loc: tuple[int | str, ...]) -> str:
    if loc[-1] in GONE:
        return f"{'.'.join(map(str, loc))}: {GONE[str(loc[-1])]}"
    known = list(KNOWN.get(len(loc), StudyConfig).__annotations__)
    return (
        f"{'.'.join(map(str, loc))}: no such entry{did_you_mean(str(loc[-1]), known)}; there are"
        f" {', '.join(known)}"
    )


def _wrong(loc: tuple[int | str, ...], message: str, found: Any) -> str:
    shown, here = repr(found), ".".join(str(part) for part in loc if not _is_tag(str(part)))
    return (
        f"{here}: {message[0].lower()}{message[1:]}, found"
        f" {shown if len(shown) < 80 else shown[:77] + '...'}"
    )


def _is_tag(part: str) -> bool:
    """Whether pydantic put this word into the place to name a member of a union."""
    return "[" in part or part in ("str", "dict", "list", "none")
