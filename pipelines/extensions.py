"""Extension points: tables of names whose objects are imported on first use.

An extension may add commands, keys of a study, analyses, executors, log formats, passes of `judge`,
and optional parts of core commands. Tasks, stages, models and specialists need no entry, because
their path is their name. A class of looktwice that moved into an extension keeps its old path by an
entry in `classes`. looktwice's own extensions are listed in the table of `extras`. Any other
package declares an entry point of the group `looktwice.extensions` whose value is such a table;
docs/howto/extend.md has a complete example.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, get_args

__all__ = ["Extension"]

ExtensionGroup = Literal[
    "commands", "keys", "analyses", "executors", "logs", "parts", "classes", "passes"
]
EXTENSION_GROUPS: tuple[ExtensionGroup, ...] = get_args(ExtensionGroup)
ENTRY_POINT_GROUP = "looktwice.extensions"
OWN_PACKAGE = "looktwice.extras"


class ExtensionError(Exception):
    """Raised if a requested extension cannot be imported; the message says which one and why."""


class Extension(NamedTuple):
    """One entry that an extension provides: its location as "package.module:attribute", and a line
    of help.

    `needs` lists what must be present for it to be useful, such as "key:fragility"; "A|B" means
    either of the two. The group defines what counts as present: for analyses, see
    `eval.analysis.analyses`.
    """

    place: str
    help: str = ""
    needs: tuple[str, ...] = ()

    def open(self) -> Any:
        """Import and return the object. Raises ExtensionError."""
        module, _, name = self.place.partition(":")
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError) as exc:
            raise ExtensionError(
                f"the extension {self.place} cannot be opened ({exc}); install what it needs, or"
                " uninstall its package"
            ) from exc

    def meets_needs(self, is_there: Callable[[str], bool]) -> bool:
        """Return whether everything in `needs` is present."""
        return all(any(map(is_there, need.split("|"))) for need in self.needs)


ExtensionTable = Mapping[str, Mapping[str, Extension]]
"""Extensions by group, then by name."""


def find_extension(group: ExtensionGroup, name: str) -> Extension | None:
    """Return the extension of this name, looktwice's own first, or None."""
    return _load_own().get(group, {}).get(name) or _load_installed().get(group, {}).get(name)


def list_extensions(group: ExtensionGroup) -> dict[str, Extension]:
    """Return all extensions of a group by name, looktwice's own first."""
    own = dict(_load_own().get(group, {}))
    return own | {k: v for k, v in _load_installed().get(group, {}).items() if k not in own}


def list_own_classes() -> Mapping[str, Extension]:
    """Return the classes of our own extensions, keyed by the path that studies and records use."""
    return _load_own().get("classes", {})


def get_public_name(module: str, name: str) -> str:
    """Return the path that studies and records use for a class of our own extensions, or ""."""
    place = f"{module}:{name}"
    return next((path for path, own in list_own_classes().items() if own.place == place), "")


@cache
def _load_own() -> ExtensionTable:
    if find_spec(OWN_PACKAGE) is None:
        return {}
    table: ExtensionTable = import_module(OWN_PACKAGE).EXTENSIONS
    return table


@cache
def _load_installed() -> ExtensionTable:
    """Return the tables of installed packages, skipping broken ones with a warning."""
    merged: dict[str, dict[str, Extension]] = {group: {} for group in EXTENSION_GROUPS}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            for group, entries in point.load().items():
                for name, entry in entries.items():
                    merged[group].setdefault(name, Extension(*entry))
        except Exception as exc:
            why = f"{type(exc).__name__}: {exc}"
            warnings.warn(f"the extension {point.value} cannot be opened ({why})", stacklevel=2)
    return merged
