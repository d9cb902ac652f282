"""The forms in which the page edits the settings of a class: each setting with its kind, range,
choices and default."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from PIL import ImageColor

from looktwice.eval.listing import (
    describe_type_hint,
    find_classes,
    get_docstring,
    get_listed_kind,
    simplify_default,
)
from looktwice.extras.networks.network import Network
from looktwice.pipelines.config.classes import (
    get_default,
    get_hints,
    get_return_class,
    list_union_members,
)
from looktwice.pipelines.config.spec import get_public_path
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import Stage

TEXT_AREA_LENGTH = 48  # characters from which a text gets a text area
MAX_SLIDER_LIMIT = 1000  # limits from here on are ignored by sliders
COLOR_PATTERN = re.compile("colou?r$|^fill$|^plate$")
RULE_PATTERN = re.compile(r"(?P<names>.+?) (?P<sign>[<>])=? (?P<bound>-?[\d.]+)")
SHOWN_SETTING_COUNT = 5  # settings of a stage that the page shows unfolded
PLAIN_KINDS = {"whole", "number", "text", "words", "color", "flag", "choice"}
TYPE_KINDS = {Model: "model", bool: "flag", int: "whole", float: "number"}
Form = dict[str, Any]


class Catalog:
    """The forms of all public stages and specialists, and of the classes that their settings
    accept, by path."""

    def __init__(self, plugins: Sequence[str] = ()) -> None:
        self.forms, self.classes = dict[str, Form](), dict[str, type]()
        for kind in ("stages", "specialists", "tools"):
            self.classes |= find_classes(kind, plugins)

    def to_dict(self) -> dict[str, Any]:
        """Return the page's JSON: the forms, the stages by room, and the names of colours."""
        rooms = dict[str, list[str]]()
        for path, cls in self.classes.items():
            takes = inspect.signature(cls.__call__).parameters
            if "state" in takes and get_listed_kind(cls) in ("stages", "specialists"):
                rooms.setdefault(path.rpartition(".")[0], []).append(path)
                self._add_form(path, cls)
        return {"forms": self.forms, "rooms": rooms, "colors": [*ImageColor.colormap]}

    def _add_form(self, path: str, cls: type) -> None:
        if path in self.forms:
            return
        form = self.forms[path] = {"says": get_docstring(cls), "settings": []}
        form["weights"] = issubclass(cls, Network)
        hints, limits = get_hints(cls), get_ranges(cls)
        for f in dataclasses.fields(cls):
            if f.init:
                setting = self._describe_setting(f, hints[f.name])
                form["settings"].append(setting | limits.get(f.name, {}))
                is_needed = "default" not in setting and setting["kind"] == "part"
                if is_needed and setting["of"] != "stages":
                    form["weights"] |= all(self.forms[p]["weights"] for p in setting["of"])
        form["open"] = list_shown_settings(cls, form["settings"])

    def _describe_setting(self, f: dataclasses.Field[Any], hint: Any) -> Form:
        """Describe a setting without its range: its kind, choices and default."""
        choices, default = [*list_union_members(hint)], get_default(f)
        inner = [choice for choice in choices if choice is not type(None)]
        setting: Form = {
            "name": f.name,
            "words": describe_type_hint(hint),
            "null": inner != choices,
        }
        if default is not dataclasses.MISSING:
            setting["default"] = simplify_default(default, hint)
        first = inner[0]
        if first in TYPE_KINDS:
            return setting | {"kind": TYPE_KINDS[first]}
        if first is Stage:
            return setting | {"kind": "part", "of": "stages"}
        if get_origin(first) is Literal and len(inner) == 1:
            return setting | {"kind": "choice", "of": [*get_args(first)]}
        if first in (str, Path):
            is_long = isinstance(default, str) and len(default) > TEXT_AREA_LENGTH
            kind = "color" if COLOR_PATTERN.search(f.name) else "words" if is_long else "text"
            return setting | {"kind": kind}
        if paths := self._list_fitting_classes(inner):
            made = (
                {"is": get_public_path(type(default))} if dataclasses.is_dataclass(default) else {}
            )
            return setting | {"kind": "part", "of": paths} | made
        return setting | {"kind": "json"}

    def _list_fitting_classes(self, hints: Sequence[Any]) -> list[str]:
        """Return the paths of the classes that satisfy one of the type hints, and add their
        forms."""
        fitting = dict[str, type]()
        for hint in hints:
            if not isinstance(hint, type):
                continue
            given = get_return_class(hint) if getattr(hint, "_is_protocol", False) else None
            if dataclasses.is_dataclass(hint):
                fitting[get_public_path(hint)] = hint
            for path, cls in self.classes.items():
                gives = get_return_class(cls) if given else None
                if issubclass(gives, given) if gives and given else hint in cls.__mro__:
                    fitting[path] = cls
        for path, cls in fitting.items():
            self._add_form(path, cls)
        return [*fitting]


def list_shown_settings(cls: type, settings: Sequence[Form]) -> list[str]:
    """Return the names of the settings that the page shows unfolded: first those without a default,
    then plain values; a class's own settings precede inherited ones."""
    own = [name for base in cls.__mro__ for name in inspect.get_annotations(base)]
    ordered = sorted(settings, key=lambda setting: own.index(setting["name"]))
    needed = [setting["name"] for setting in ordered if "default" not in setting]
    plain = [setting["name"] for setting in ordered if setting["kind"] in PLAIN_KINDS]
    return [*dict.fromkeys([*needed, *plain])][:SHOWN_SETTING_COUNT]


def get_ranges(cls: type) -> dict[str, dict[str, float]]:
    """Return the limits of a class's numeric settings, taken from its validation rules."""
    limits = dict[str, dict[str, float]]()
    for base in cls.__mro__:
        for matched in filter(None, map(RULE_PATTERN.fullmatch, vars(base).get("ranges", ()))):
            end, bound = "min" if matched["sign"] == ">" else "max", float(matched["bound"])
            for name in matched["names"].split(", ") if abs(bound) < MAX_SLIDER_LIMIT else ():
                limits.setdefault(name, {})[end] = bound
    return limits
