"""Writes the reference, `docs/reference.md` and the pages under `docs/reference/`, from signatures
and docstrings.

`python docs/reference.py` makes all of them anew; nothing in them is written by hand.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from python_page import docstring, escaped, named, python_page
from typer.models import OptionInfo

from looktwice.eval.cli import ALLOW_OPTIONS, get_commands
from looktwice.eval.commands import options
from looktwice.eval.listing import describe_type_hint, find_bases, format_settings
from looktwice.pipelines.config import keys as entries
from looktwice.pipelines.config.keys import list_keys
from looktwice.pipelines.config.load import make_study_schema
from looktwice.pipelines.extensions import list_own_classes
from looktwice.pipelines.model import Model

__all__ = ["CLASSES", "VALUES", "find_bases", "format_settings", "keys_of", "pages"]

HERE = Path(__file__).resolve().parent
WRITTEN = (
    "Written by `python docs/reference.py` from signatures and docstrings; change those, not this"
    " page."
)
BLOCKS = """\
Each block holds the settings of a class with their defaults, ready to be pasted, and behind `#` what each takes; `...`
must be given. A type such as `Crop` or `Subset` is a class of [these pages](../reference.md): write a mapping of its
settings. `Detector` and the like are [protocols](../specialists.md#specialists-by-protocol): write a node with `use:`.
`Stage` takes any stage."""


class Page(NamedTuple):
    """A page of classes: its file, title, what it holds, its rooms, and single classes of other
    rooms."""

    name: str
    title: str
    says: str
    rooms: tuple[str, ...]
    others: tuple[str, ...] = ()


def _rooms(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}.{name}" for name in names.split())


PAGES = (
    Page(
        "prompting",
        "Stages, controls and an agent's tools",
        "What a configuration may name under `stages:`, and the settings of these.",
        tuple(
            f"prompting.{r}"
            for r in [
                "markers",
                "grids",
                "views",
                "where",
                "telling",
                "wording",
                "turns",
                "agent",
                "controls",
                "burnt_in",
            ]
        ),
    ),
    Page(
        "specialists",
        "Specialists",
        "Stages that answer without the multimodal model, and the vision models behind them.",
        _rooms("specialists", "answers detection drawings features maps matching segmentation"),
        ("specialists.pixels.InputSize",),
    ),
    Page(
        "tasks",
        "Tasks",
        "What a configuration may name under `task:` or `tasks:`, and the scorers that a task may"
        " have.",
        ("eval.tasks", "eval.make"),
        ("eval.replies.RecordedQuestions", "eval.scoring.AllRight", "eval.scoring.BenchmarkScorer"),
    ),
    Page(
        "readers",
        "Readers",
        "What a configuration may name under `read:`.",
        ("eval.readers",),
        ("eval.replies.OfficialLabel",),
    ),
    Page(
        "models",
        "Models",
        "What a configuration may name under `model:` or `models:`.",
        ("pipelines.models",),
        ("eval.tasks.NearSighted", "eval.tasks.NeverLooks", "pipelines.model.CallOptions"),
    ),
)
ELSEWHERE = {path for page in PAGES for path in page.others}
VALUES = {"eval.tasks.Facts", "prompting.agent.ToolResult"}
"""Public dataclasses of these rooms that code gives and no configuration names."""


def _groups(page: Page) -> dict[str, dict[str, type]]:
    """The classes of a page by public path, under the room that they stand under."""
    rooms = {
        room: {f"{room}.{name}": named(f"{room}.{name}") for name in _names(room)}
        for room in page.rooms
    }
    kept = {
        r: {p: c for p, c in classes.items() if _is_listed(p, c)} for r, classes in rooms.items()
    }
    others = [path for path in page.others if path.rpartition(".")[2] in _names(_room(path))]
    kept |= {"Of other rooms": {path: named(path) for path in others}}
    return {room: classes for room, classes in kept.items() if classes}


def _room(path: str) -> str:
    return path.rpartition(".")[0]


def _names(room: str) -> list[str]:
    """What has a path of a room: what it says itself, and the classes of extensions."""
    own = {path.rpartition(".")[2] for path in list_own_classes() if _room(path) == room}
    return sorted(own.union(import_module(f"looktwice.{room}").__all__ if _is_there(room) else ()))


def _is_there(room: str) -> bool:
    spec = find_spec(f"looktwice.{room}")
    return spec is not None and spec.origin is not None  # a folder without files is no room


def _room_says(room: str) -> str:
    """The first sentence of a room; of one whose classes are all of an extension, of that one."""
    if _is_there(room):
        return _first(import_module(f"looktwice.{room}"))
    place = next(own.place for path, own in list_own_classes().items() if _room(path) == room)
    return _first(import_module(place.partition(":")[0].rpartition(".")[0]))


def _is_listed(path: str, thing: Any) -> bool:
    """Whether it is a class with settings; a model around a model is put there by the run
    itself."""
    if (
        not (isinstance(thing, type) and dataclasses.is_dataclass(thing))
        or path in ELSEWHERE | VALUES
    ):
        return False
    return not (path.startswith("pipelines.models.") and Model in get_type_hints(thing).values())


GROUPS = {page.name: _groups(page) for page in PAGES}


def _flat(rooms: Mapping[str, Mapping[str, type]]) -> Iterator[tuple[str, type]]:
    for classes in rooms.values():
        yield from classes.items()


CLASSES: Mapping[str, type] = {path: cls for rooms in GROUPS.values() for path, cls in _flat(rooms)}
"""Every class of the reference by its public path."""


def pages() -> dict[str, str]:
    """Every page of the reference by its path below `docs/`."""
    classes = {f"reference/{page.name}.md": _class_page(page) for page in PAGES}
    fixed = {"study": _study_page(), "commands": _commands_page(), "python": python_page(WRITTEN)}
    return (
        {"reference.md": _index_page()}
        | {f"reference/{n}.md": text for n, text in fixed.items()}
        | classes
    )


def _index_page() -> str:
    lines = [
        "# Reference",
        "",
        "Every key, class, setting and command, from the code itself.",
        "",
        WRITTEN,
        "",
    ]
    lines += ["- [The study's YAML](reference/study.md): every key, and the words of overlays."]
    lines += ["- [The command line](reference/commands.md): every command with its options."]
    lines += [
        f"- [{page.title}](reference/{page.name}.md): {page.says[0].lower()}{page.says[1:]}"
        for page in PAGES
    ]
    lines += [
        "- [In Python](reference/python.md): what a stage, a task and a tool are given and give;"
        " runs and tables."
    ]
    for page in PAGES:
        lines += ["", f"## {page.title}"]
        for room, members in GROUPS[page.name].items():
            lines += ["", f"**{room}**", ""]
            for path, cls in members.items():
                lines += [
                    f"- [{cls.__name__}](reference/{page.name}.md#{_anchor(path)}): {_first(cls)}"
                ]
    return "\n".join(lines) + "\n"


def _class_page(page: Page) -> str:
    lines = [f"# {page.title}", "", f"{page.says} {WRITTEN}", "", BLOCKS]
    shared: dict[type, None] = {}
    for room, members in GROUPS[page.name].items():
        lines += ["", f"## {room}"]
        lines += ["", _room_says(room)] if room in page.rooms else []
        for path, cls in members.items():
            bases = find_bases(cls)
            shared |= dict.fromkeys(base for base in bases if base not in CLASSES.values())
            lines += [
                "",
                f"### {path}",
                "",
                escaped(docstring(cls)),
                "",
                "```yaml",
                format_settings(path, cls),
                "```",
            ]
            lines += [
                *_arguments(cls),
                *(["", f"More on its settings: {_links(bases)}."] if bases else []),
            ]
    lines += ["", "## Settings in common"] if shared else []
    for base in shared:
        lines += ["", f"### {base.__name__.lstrip('_')}", "", escaped(docstring(base))]
    return "\n".join(lines) + "\n"


def _links(bases: Sequence[type]) -> str:
    pages = {
        cls: f"{name}.md#{_anchor(path)}"
        for name, rooms in GROUPS.items()
        for path, cls in _flat(rooms)
    }
    names = ((base.__name__.lstrip("_"), pages.get(base)) for base in bases)
    return ", ".join(f"[{name}]({place or f'#{_anchor(name)}'})" for name, place in names)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def _first(thing: Any) -> str:
    """The first sentence of a docstring, in one line."""
    paragraph = " ".join(docstring(thing).partition("\n\n")[0].split())
    return escaped(re.split(r"(?<=[.])\s(?=[A-Z`])", paragraph)[0])


def _arguments(cls: type) -> list[str]:
    """What a model may say when it calls a tool."""
    arguments = getattr(cls, "arguments", None)
    if not isinstance(arguments, type) or not hasattr(arguments, "model_fields"):
        return []
    lines = [f"- `{name}`: {info.description}" for name, info in arguments.model_fields.items()]
    return ["", "The model is told `description`, and may give:", "", *lines] if lines else []


STUDY = """\
What may stand at the top of the file, and what these entries hold. All may be left out, but there must be a task and
something that answers. [The guide](../guide.md) shows how to begin."""
TITLES = {
    "StudyConfig": "The file",
    "Contestant": "A contestant, which is an entry of `contestants:`",
    "Needs": "`needs:` of a contestant",
    "Published": "An entry of `published:`",
}


def study_mappings() -> Iterator[tuple[str, Any, str]]:
    """The title, the type and the words of each mapping that a study may hold."""
    keys = list_keys()
    for name, title in TITLES.items():
        entry = getattr(entries, name)
        yield (
            title,
            make_study_schema(keys) if name == "StudyConfig" else entry,
            entry.__doc__ or "",
        )
    for name, key in keys.items():
        if hasattr(key.schema, "__annotations__"):
            yield f"`{name}:`", key.schema, key.schema.__doc__ or ""


def _study_page() -> str:
    lines = ["# The study's YAML", "", WRITTEN, "", STUDY]
    for title, entry, words in study_mappings():
        lines += [
            "",
            f"## {title}",
            "",
            inspect.cleandoc(words),
            "",
            *map(_entry_line, keys_of(entry)),
        ]
    lines += ["", "## Words of overlays", "", "They may stand wherever their examples say.", ""]
    lines += [_entry_line((word, None, entry)) for word, entry in entries.SPECIAL_KEYS.items()]
    return "\n".join(lines) + "\n"


def keys_of(entry: Any) -> Iterator[tuple[str, Any, entries.Entry]]:
    """Key, type and what is said of it, for every key of a mapping that a study may hold. Raises
    ValueError."""
    for key, hint in get_type_hints(entry, include_extras=True).items():
        words = [word for word in getattr(hint, "__metadata__", ()) if isinstance(word, str)]
        if len(words) != 2:
            raise ValueError(
                f"{entry.__name__}.{key} has no meaning and example; describe it in"
                " pipelines/config/keys.py"
            )
        yield key, hint, (words[0], words[1])


def _entry_line(said: tuple[str, Any, entries.Entry]) -> str:
    key, hint, (meaning, example) = said
    kind = f" ({describe_type_hint(hint)})" if hint is not None else ""
    return f"- **`{key}`**{kind}: {meaning} Example: `{example}`"


def _commands_page() -> str:
    lines = ["# The command line", "", WRITTEN, ""]
    listed = {name: entry for group in get_commands().values() for name, entry in group.items()}
    fenced = [
        name for name, entry in listed.items() if entry.needs == ALLOW_OPTIONS and name != "mcp"
    ]
    fence = _Parameter("allow", options.AllowedAccess, options.NO_VALUES).line
    names = ", ".join(f"`{name}`" for name in fenced)
    lines += [f"One option belongs to {names}:", "", fence]
    for name, entry in listed.items():
        function: Any = entry.open()
        hints, parameters = (
            get_type_hints(function, include_extras=True),
            inspect.signature(function).parameters,
        )
        arguments = [_Parameter(name, hints[name], p.default) for name, p in parameters.items()]
        usage = " ".join(["looktwice", name, *(p.shown for p in arguments if not p.is_option)])
        lines += [
            "",
            f"## {usage}",
            "",
            escaped(docstring(function)),
            "",
            *(p.line for p in arguments),
        ]
    return "\n".join(lines) + "\n"


class _Parameter(NamedTuple):
    """An argument or option of a command, as its signature declares it."""

    name: str
    hint: Any
    default: Any

    @property
    def info(self) -> Any:
        return next(m for m in self.hint.__metadata__ if hasattr(m, "param_decls"))

    @property
    def is_option(self) -> bool:
        return isinstance(self.info, OptionInfo)

    @property
    def shown(self) -> str:
        """How it is typed: an argument by its word, an option with what it takes."""
        kind, multiple = _kind(self.hint)
        if not self.is_option:
            return self.info.metavar or self.name.upper() + ("..." if multiple else "")
        given = [
            word
            for word in (self.info.default, *(self.info.param_decls or ()))
            if str(word).startswith("--")
        ]
        option = given[0] if given else f"--{self.name.replace('_', '-')}"
        return (
            option
            if kind is bool
            else f"{option} {self.info.metavar or {int: 'N', Path: 'PATH'}.get(kind, 'TEXT')}"
        )

    @property
    def line(self) -> str:
        """It with its help, whether it may be repeated, and its default."""
        notes = ["may be repeated"] if _kind(self.hint)[1] and self.is_option else []
        if self.is_option and self.default is inspect.Parameter.empty:
            notes.append("needed")
        elif self.default not in (None, "", False, [], inspect.Parameter.empty):
            notes.append(f"default: `{self.default}`")
        return (
            f"- `{self.shown}`:"
            f" {escaped(self.info.help or '')}{f' ({chr(44).join(notes)})' if notes else ''}"
        )


def _kind(hint: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there may be several."""
    inner = get_args(hint)[0]
    inner = next(
        h
        for h in (get_args(inner) if get_origin(inner) in (Union, UnionType) else (inner,))
        if h is not None
    )
    return (get_args(inner)[0], True) if get_origin(inner) is list else (inner, False)


if __name__ == "__main__":
    for name, text in pages().items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(text, encoding="utf-8")
