"""What a configuration may name, a line each, by kind, and the shipped configurations, of which it
makes copies."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from looktwice.eval.readers.reader import Reader
from looktwice.eval.settings_text import bases_of, settings_text
from looktwice.pipelines.config.classes import ConfigError, did_you_mean, kind_of, type_hints
from looktwice.pipelines.config.paths import shipped
from looktwice.pipelines.config.spec import public_path
from looktwice.pipelines.model import Model

__all__: list[str] = []

SAYS: Mapping[str, str] = {
    "stages": "what is drawn, cropped, said and asked",
    "specialists": "stages that answer without the multimodal model, and the vision models in them",
    "tools": "what an agent may look with",
    "tasks": "benchmarks, tables of your own questions, questions made from images",
    "readers": "rules that find the answer in a reply",
    "models": "what answers messages",
    "configs": "studies to start from: `looktwice run NAME`, or `looktwice init NAME` for a copy",
}
"""Each kind, and what it holds."""
ROOMS: Mapping[str, tuple[str, ...]] = {
    "stages": ("prompting",),
    "specialists": ("specialists",),
    "tools": ("prompting.agent",),
    "tasks": ("eval.tasks", "eval.make", "eval.replies"),
    "readers": ("eval.readers", "eval.replies"),
    "models": ("pipelines.models", "eval.tasks"),
}
"""Where classes of a kind lie, a folder or a room of one; no other is opened, because that takes
time."""


def list_kinds(plugins: Sequence[str] = ()) -> Iterator[str]:
    """How many there are of each kind, and what to type for them."""
    for kind in SAYS:
        yield f"{kind:11} {len(list(list_kind(kind, plugins))):3}  {SAYS[kind]}"
    yield "looktwice list KIND names them, and looktwice list NAME tells the settings of one"
    yield f"documents: {_documents()}"


def _documents() -> str:
    """Where the documents lie: the project's page, the folder of a checkout, or what to look
    for."""
    pages = distribution("looktwice").metadata.get_all("Project-URL") or []
    folder = Path(__file__).resolve().parents[1] / "docs"
    near = (
        str(folder)
        if (folder / "reference.md").is_file()
        else "docs/ of the repository or source distribution"
    )
    return next((page.partition(", ")[2] for page in pages), near)


def list_class(name: str, plugins: Sequence[str] = ()) -> Iterator[str]:
    """What a class is, its settings as a configuration writes them, and where more of it stands.

    `name` is its whole path, or the last word of it. Raises ConfigError for one that there is not.
    """
    named = {
        public_path(cls): cls
        for kind in ROOMS
        for module in _modules(kind, plugins)
        for cls in _classes(module)
    }
    fitting = [
        path for path in named if name in (path, f"looktwice.{path}", path.rpartition(".")[2])
    ]
    if not fitting:
        hint = did_you_mean(name, [*SAYS, *named, *(path.rpartition(".")[2] for path in named)])
        raise ConfigError(
            [f"list {name}: no such kind or class{hint}; there are {', '.join(SAYS)}"]
        )
    for path in fitting:
        for cls in (named[path], *bases_of(named[path])):
            yield f"{inspect.cleandoc(vars(cls).get('__doc__') or '')}\n"
        yield f"{settings_text(path, named[path])}\n"
    yield f"documents: {_documents()}"


def list_kind(kind: str, plugins: Sequence[str] = ()) -> Iterator[str]:
    """A line for each thing of a kind: what to write after `use:`, or a file's name, and its first
    sentence."""
    if kind == "configs":
        found = {
            name: _comment(path.read_text(encoding="utf-8")) for name, path in shipped().items()
        }
    else:
        classes = (
            cls
            for module in _modules(kind, plugins)
            for cls in _classes(module)
            if _kind(cls) == kind
        )
        found = {
            public_path(cls): inspect.cleandoc(vars(cls).get("__doc__") or "") for cls in classes
        }
    width = max(map(len, found), default=0)
    yield from (f"{name:{width}}  {_first_sentence(text)}".rstrip() for name, text in found.items())


def _modules(kind: str, plugins: Sequence[str]) -> Iterator[ModuleType]:
    """The rooms that hold classes of a kind, and the plugins."""
    for place in ROOMS[kind]:
        package = import_module(f"looktwice.{place}")
        rooms = (
            []
            if "." in place
            else [room.name for room in iter_modules(package.__path__) if room.ispkg]
        )
        yield from (import_module(f"{package.__name__}.{name}") for name in rooms)
        yield from [] if rooms else [package]
    yield from map(import_module, plugins)


def _classes(module: ModuleType) -> Iterator[type]:
    """The public dataclasses that a room or a plugin defines."""
    for name in sorted(getattr(module, "__all__", None) or vars(module)):
        thing = getattr(module, name)
        if (
            isinstance(thing, type)
            and thing.__module__.startswith(module.__name__)
            and not name.startswith("_")
        ):
            yield from [thing] if dataclasses.is_dataclass(thing) else []


def _kind(cls: type) -> str | None:
    """The kind of a class, None for what is only the setting of another, or put there by the run
    itself."""
    made = kind_of(cls)
    if made == "task":
        return "tasks"
    if made == "model":
        return None if Model in type_hints(cls).values() else "models"
    if made is None:
        return None
    takes = inspect.signature(cls.__call__).parameters
    if issubclass(cls, Reader):
        return "readers"
    if "arguments" in takes:
        return "tools"
    folder = public_path(cls).partition(".")[0]
    if folder != "specialists" and {"state", "model"} <= takes.keys():
        return "stages"
    # a crop's style is the setting of a stage
    return None if folder == "prompting" else "specialists"


def _comment(text: str) -> str:
    """The comment at the top of a file, up to the command that runs it."""
    lines = text.splitlines()
    top = lines[
        : next((n for n, line in enumerate(lines) if not line.startswith("# ")), len(lines))
    ]
    return " ".join(line.removeprefix("# ") for line in top if not line.startswith("#  "))


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.])\s(?=[A-Z`])", paragraph)[0]


def copy_config(name: str, out: Path | None = None) -> Path:
    """Write a copy of a shipped configuration, or of the study to begin with, by default into the
    working folder.

    Nothing is overwritten, and the commands in its comment name the copy. The study is none of
    those that go by name: who mistypes the path of an own study.yaml would run it. Raises
    ConfigError, FileExistsError.
    """
    known = {"study": Path(__file__).with_name("templates") / "study.yaml", **shipped()}
    found = known.get(name.removesuffix(".yaml"))
    if found is None:
        hint = did_you_mean(name, known)
        raise ConfigError(
            [f"{name}: no shipped configuration of this name{hint}; see `looktwice list configs`"]
        )
    target = out or Path(found.name)
    if target.exists():
        raise FileExistsError(f"{target} is there already; give another --out FILE")
    text = found.read_text(encoding="utf-8").replace(f"configs/{found.name}", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target
