"""Paths that a configuration may still name although their class has become another one with a
setting or two.

What is built from the old path is written down, and identified, under the old path: no record, no
cached reply and no study notices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALIASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "eval.readers.Vlm2Count": ("eval.readers.Vlm2", {"form": "count"}),
    "eval.readers.Vlm2Exact": ("eval.readers.Vlm2", {"form": "exact"}),
    "eval.readers.Vlm2Grouping": ("eval.readers.Vlm2", {"form": "grouping"}),
    "eval.readers.Vlm2Official": ("eval.readers.Vlm2", {"form": "official"}),
    "eval.readers.Vlm2TrueFalse": ("eval.readers.Vlm2", {"form": "true_false"}),
    "eval.readers.Vlm2Vlmevalkit": ("eval.readers.Vlm2", {"form": "vlmevalkit"}),
}
"""The old path of a class: its path now, and the settings that the old one stood for, as the object
holds them."""


def resolve_alias(use: str) -> tuple[str, Mapping[str, Any]]:
    """The path behind a `use`, and the settings that come with it."""
    return ALIASES.get(use.removeprefix("looktwice."), (use, {}))


def named_alias(path: str, thing: Any) -> tuple[str, Mapping[str, Any]]:
    """The old path of an object whose class lies at `path`, with the settings that it stands for;
    the path itself where it has none."""
    for old, (new, settings) in ALIASES.items():
        if new == path and all(getattr(thing, name) == value for name, value in settings.items()):
            return old, settings
    return path, {}
