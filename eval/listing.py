"""Lists what a configuration can name, by kind, with the settings of each class, and copies
shipped configurations."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from pkgutil import iter_modules
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

import yaml
from typing_extensions import is_typeddict

from looktwice.eval.readers.reader import Reader, is_own_reader
from looktwice.pipelines.config.classes import (
    ConfigError,
    extend_hint,
    find_dataclass,
    get_default,
    get_hints,
    get_kind,
    suggest_names,
)
from looktwice.pipelines.config.foreign_names import FOREIGN_NAMES
from looktwice.pipelines.config.shipped import list_configs
from looktwice.pipelines.config.spec import get_public_path
from looktwice.pipelines.extensions import list_own_classes
from looktwice.pipelines.model import Model

__all__: list[str] = []

KIND_DESCRIPTIONS: Mapping[str, str] = {
    "stages": "steps that draw, crop, word the prompt and ask the model",
    "specialists": "stages that answer without the multimodal model, and the vision models in them",
    "tools": "image tools of an agent",
    "tasks": "benchmarks, tables of your own questions, questions made from images",
    "readers": "rules that read the answer out of a reply",
    "models": "models that reply to messages",
    "configs": "studies to start from: `looktwice run NAME`, or `looktwice init NAME` for a copy",
}
"""The description of each kind of entry."""
STARTER_CONFIGS: Mapping[str, str] = {
    "quickstart": "marks, zooms and wordings on the small bundled model; no key, no network",
    "marked_scenes": "the effect of marks and zooms, on drawn scenes with known answers",
    "marker_styles": "how much results depend on the style of a marker",
    "ways_of_looking": "ways to look again with any model behind an endpoint",
    "where_to_look": "which crop helps, at equal tokens, against placebo and oracle",
    "evidence_in_words": "a specialist's results, given to the model as text or drawn",
    "tool_contribution": "how much an agent's tool contributes, part by part",
    "blindness": "what a model answers without the images",
    "discover": "the best combination of a sweep, for part of its cost",
    "blink_markers": "a paper's experiment: radius and color of BLINK's circles",
}
"""The configurations to start from, in this order."""
KIND_ROOMS: Mapping[str, tuple[str, ...]] = {
    "stages": ("prompting",),
    "specialists": ("specialists",),
    "tools": ("prompting.agent",),
    "tasks": ("eval.tasks", "eval.make", "eval.replies"),
    "readers": ("eval.readers", "eval.replies"),
    "models": ("pipelines.models", "eval.tasks"),
}
"""The rooms that hold the classes of each kind, as folders or packages; some hold only classes of
extensions. Only these are imported, because importing takes time."""
CORE_MODULES = (
    "looktwice.pipelines",
    "looktwice.eval.scoring",
    "looktwice.eval.records",
    "looktwice.eval.readers.reader",
    "looktwice.prompting.agent",
)
"""Modules of the types that a user's own class receives, returns or inherits from."""
TYPE_DESCRIPTIONS = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    type(None): "null",
    Path: "path",
}


def list_starters() -> Iterator[str]:
    """Yield the configurations to start from, and the commands that list everything else."""
    yield "Studies to start from: looktwice run NAME, or looktwice init NAME for a copy"
    width = max(map(len, STARTER_CONFIGS))
    for name, text in STARTER_CONFIGS.items():
        yield f"  {name:{width}}  {text}"
    yield f"looktwice list --all lists all {len(list_configs())}; looktwice list KIND lists these:"
    for kind in KIND_DESCRIPTIONS:
        yield f"  {kind:{width}}  {KIND_DESCRIPTIONS[kind]}"
    yield "looktwice list NAME shows the settings of a class, such as Circles"
    yield _locate_documentation()


def _locate_documentation() -> str:
    """Return where the documentation is: the project's page, or the folder `docs` of a checkout."""
    for page in distribution("looktwice").metadata.get_all("Project-URL") or ():
        return f"documents: {page.partition(', ')[2]}"
    folder = Path(__file__).resolve().parents[1] / "docs"
    if (folder / "reference.md").is_file():
        return f"documents: {folder}"
    return "documents: docs/ of the repository or source distribution"


def list_class_names() -> list[str]:
    """Return the short name of every class that a configuration can name."""
    return [path.rpartition(".")[2] for kind in KIND_ROOMS for path in find_classes(kind, ())]


def list_class(name: str, plugins: Sequence[str] = ()) -> Iterator[str]:
    """Yield a class's description, its settings as YAML, and where the documentation is.

    `name` is the class's path or short name. Raises ConfigError for an unknown name.
    """
    classes = dict[str, type]()
    for kind in KIND_ROOMS:
        classes |= find_classes(kind, plugins)
    short = {path: path.rpartition(".")[2] for path in classes}
    fitting = [path for path in classes if name in (path, f"looktwice.{path}", short[path])]
    for room in CORE_MODULES:
        core = import_module(room)
        if not fitting and isinstance(getattr(core, name, None), type):
            yield from _describe_type(getattr(core, name), room)
            return
    if not fitting:
        part = name.casefold().removesuffix("s")
        kinds = [kind for kind in KIND_ROOMS if kind == f"{part}s"] or [*KIND_ROOMS]
        for line in dict.fromkeys(line for kind in kinds for line in list_kind(kind, plugins)):
            path = line.split()[0]
            words = f"{path.partition('.')[2]} {FOREIGN_NAMES.get(path.rpartition('.')[2], '')}"
            if len(kinds) == 1 or _starts_word(part, words):
                fitting.append(path)
                yield line
        if fitting:
            return
        hint = suggest_names(name, [*KIND_DESCRIPTIONS, *short.values(), "Scorer"])
        there = extend_hint(hint, f"there are {', '.join(KIND_DESCRIPTIONS)}")
        raise ConfigError([f"list {name}: no such kind or class{there}"])
    for path in fitting:
        for text in describe_class(classes[path]):
            yield f"{text}\n"
        yield f"{format_settings(path, classes[path])}\n"
    yield _locate_documentation()


def _starts_word(part: str, words: str) -> bool:
    """Return whether a word of this text begins with `part`; a capital letter begins a word."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(part)})", words, re.I)]
    return any(
        not place or not words[place - 1].isalpha() or words[place].isupper() for place in places
    )


def _describe_type(cls: type, room: str) -> Iterator[str]:
    """Yield the fields and methods, one a line, of a core type that a user's own stage, task, model
    or scorer works with."""

    def signature(function: Callable[..., Any]) -> str:
        return str(inspect.signature(function)).replace("'", "")

    yield f"from {room} import {cls.__name__}\n"
    if dataclasses.is_dataclass(cls):
        yield f"{cls.__name__}{signature(cls)}\n"
    yield f"{get_docstring(cls)}\n"
    for name, member in vars(cls).items():
        function = getattr(member, "func", None) or getattr(member, "fget", None) or member
        if inspect.isfunction(function) and (name == "__call__" or not name.startswith("_")):
            takes = signature(function) if function is member else ""
            yield f"  .{name}{takes}: {_get_first_sentence(get_docstring(function))}"


def list_kind(kind: str, plugins: Sequence[str]) -> Iterator[str]:
    """Yield one line for each entry of a kind: what to write after `use:`, or a file's name; its
    first sentence; and its required settings."""
    texts, needed = dict[str, str](), dict[str, list[str]]()
    if kind == "configs":
        for name, path in list_configs().items():
            # the comment at the top, up to the command that runs it
            top = takewhile(
                lambda line: line.startswith("# "), path.read_text("utf-8").splitlines()
            )
            texts[name] = " ".join(line[2:] for line in top if not line.startswith("#  "))
    else:
        for name, cls in find_classes(kind, plugins).items():
            if get_listed_kind(cls) == kind:
                texts[name] = get_docstring(cls)
                needed[name] = [
                    f.name
                    for f in dataclasses.fields(cls)
                    if f.init and get_default(f) is dataclasses.MISSING
                ]
    width = max(map(len, texts), default=0)
    for name, text in texts.items():
        needs = f" Needs {', '.join(needed[name])}." if needed.get(name) else ""
        yield f"{name:{width}}  {_get_first_sentence(text)}{needs}".rstrip()


def get_docstring(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def _get_first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.])\s(?=[A-Z`])", paragraph)[0]


def find_classes(kind: str, plugins: Sequence[str]) -> dict[str, type]:
    """Return the public dataclasses of a kind by their path: those of its rooms, of extensions
    under the same paths, and of the plugins."""
    names = list[str]()
    for place in KIND_ROOMS[kind]:
        if find_spec(f"looktwice.{place}") is None:
            continue
        package = import_module(f"looktwice.{place}")
        rooms = [] if "." in place else [r.name for r in iter_modules(package.__path__) if r.ispkg]
        names += [f"{package.__name__}.{room}" for room in rooms] or [package.__name__]
    classes = dict[str, type]()
    for module in map(import_module, (*names, *plugins)):
        for name in sorted(getattr(module, "__all__", None) or vars(module)):
            cls = getattr(module, name)
            if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
                continue
            if cls.__module__.startswith(module.__name__) and not name.startswith("_"):
                classes[get_public_path(cls)] = cls
    begins = tuple(f"{place}." for place in KIND_ROOMS[kind])
    own = {
        path: extension for path, extension in list_own_classes().items() if path.startswith(begins)
    }
    classes |= {path: extension.open() for path, extension in own.items()}
    return dict(sorted(classes.items()))


def get_listed_kind(cls: type) -> str | None:
    """Return the kind under which a class is listed; None for a class that is only a setting of
    another class or is set by the run."""
    made = get_kind(cls)
    if made == "task":
        return "tasks"
    if made == "model":
        return None if Model in get_hints(cls).values() else "models"
    if made is None:
        return None
    takes = inspect.signature(cls.__call__).parameters
    if issubclass(cls, Reader) or is_own_reader(cls):
        return "readers"
    if "arguments" in takes:
        return "tools"
    folder = get_public_path(cls).partition(".")[0]
    if folder != "specialists" and {"state", "model"} <= takes.keys():
        return "stages"
    # a crop's style is only a setting of a stage
    return None if folder == "prompting" else "specialists"


def copy_config(name: str, out: Path | None) -> Path:
    """Copy a shipped configuration, or the study template, to `out`, by default into the working
    folder; return the path.

    Existing files are not overwritten, and the commands in the comment name the copy. The template
    cannot be run by name, because a mistyped path of a user's own study.yaml would then run it.
    Raises ConfigError, FileExistsError.
    """
    configs = {"study": Path(__file__).with_name("templates") / "study.yaml", **list_configs()}
    config = configs.get(name.removesuffix(".yaml"))
    if config is None:
        hint = suggest_names(name, configs) or "; see `looktwice list configs`"
        if name.endswith(".yaml"):
            hint = extend_hint(hint, f"to name the new file, type --out {name}")
        raise ConfigError([f"{name}: no shipped configuration has this name{hint}"])
    target = out or Path(config.name)
    if target.exists():
        raise FileExistsError(f"{target} already exists; name another file with --out FILE")
    text = config.read_text("utf-8").replace(f"configs/{config.name}", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def find_bases(cls: type) -> list[type]:
    """Return the base classes that declare some of a class's settings."""
    names = {f.name for f in dataclasses.fields(cls) if f.init}
    return [base for base in cls.__mro__[1:] if names & inspect.get_annotations(base).keys()]


def describe_class(cls: type) -> list[str]:
    """Return the docstring of a class, and of each base that explains a setting not yet named in
    the docstrings before it."""
    names, texts = {f.name for f in dataclasses.fields(cls) if f.init}, [get_docstring(cls)]
    for base in find_bases(cls):
        before, text = "\n".join(texts), get_docstring(base)
        if any(f"`{name}`" in text and f"`{name}`" not in before for name in names):
            texts.append(text)
    return texts


def format_settings(path: str, cls: type) -> str:
    """Format a class and its settings as YAML, with defaults and types."""
    hints, lines = get_type_hints(cls), [f"use: {path}"]
    for f in (f for f in dataclasses.fields(cls) if f.init):
        value, words = get_default(f), describe_type_hint(hints[f.name])
        if value is dataclasses.MISSING:
            lines.append(f"{f.name}: ...  # {words}")
        elif isinstance(value, str) and "\n" in value:
            lines.append(f"{f.name}: |{'' if value.endswith(chr(10)) else '-'}  # {words}")
            lines += [f"  {line}".rstrip() for line in value.splitlines()]
        else:
            lines.append(
                f"{f.name}: {format_flow_yaml(simplify_default(value, hints[f.name]))}  # {words}"
            )
    return "\n".join(lines)


def simplify_default(value: Any, hint: Any = None) -> Any:
    """Convert a default to plain values: an object becomes its class and the settings that differ
    from their defaults."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = {} if find_dataclass(hint) is type(value) else {"use": get_public_path(type(value))}
        for f in dataclasses.fields(value):
            if f.init and (inner := getattr(value, f.name)) != get_default(f):
                kept[f.name] = simplify_default(inner)
        return kept
    if isinstance(value, Mapping):
        return {str(key): simplify_default(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [simplify_default(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def format_flow_yaml(value: Any) -> str:
    """Format a value as one line of YAML."""
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=float("inf"), allow_unicode=True
    )
    return text.removesuffix("...\n").strip()


def describe_type_hint(hint: Any) -> str:
    """Describe a type hint for users: `float` becomes "number"."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Annotated, NotRequired):
        return describe_type_hint(args[0])
    if origin is Literal:
        return " | ".join(format_flow_yaml(arg) for arg in args)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(describe_type_hint(arg) for arg in args))
    if origin is tuple and args[-1] is not Ellipsis:
        return f"[{', '.join(map(describe_type_hint, args))}]"
    if origin is Callable:
        return "function"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = describe_type_hint(args[1])
        return "mapping" if args[1] is Any or inner.startswith("mapping") else f"mapping to {inner}"
    if isinstance(origin, type) and issubclass(origin, Collection):
        return f"list of {describe_type_hint(args[0])}" if args[0] is not Any else "list"
    return (
        "mapping"
        if is_typeddict(hint)
        else TYPE_DESCRIPTIONS.get(hint) or str(getattr(hint, "__name__", hint))
    )
