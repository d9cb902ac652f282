"""How an extension attaches: a table of names, each of which is opened when it is used.

An extension brings commands, keys of a study, analyses, executors, formats of logs, or parts of
commands of the core, which do without them where they are not there; tasks, stages, models and
specialists need no door, because their path is their name. A class of ours that moved into an
extension keeps its path by a line of `classes`. Looktwice's own extensions stand in the table of
`extras`. A package of anybody's declares an entry point of the group
`looktwice.extensions` whose value is such a table; docs/howto/extend.md shows one whole.
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

Group = Literal["commands", "keys", "analyses", "executors", "logs", "parts", "classes"]
GROUPS: tuple[Group, ...] = get_args(Group)
ENTRY_POINTS = "looktwice.extensions"
OWN = "looktwice.extras"


class ExtensionError(Exception):
    """An extension that was named and cannot be opened; the message says which, and why."""


class Extension(NamedTuple):
    """One thing that an extension brings: where it is, as "package.module:attribute", and a line of
    help.

    `needs` says what must be there for it to be of use, such as "key:fragility"; "A|B" means one of
    the two. What is there, the group says: of analyses, `eval.analysis.analyses`.
    """

    place: str
    help: str = ""
    needs: tuple[str, ...] = ()

    def open(self) -> Any:
        """Import it. Raises ExtensionError."""
        module, _, name = self.place.partition(":")
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError) as exc:
            raise ExtensionError(
                f"the extension {self.place} cannot be opened ({exc}); install what it needs, or"
                " uninstall its package"
            ) from exc

    def is_of_use(self, is_there: Callable[[str], bool]) -> bool:
        """Whether all is there that it needs."""
        return all(any(map(is_there, need.split("|"))) for need in self.needs)


Table = Mapping[str, Mapping[str, Extension]]
"""By group, and then by name."""


def find_extension(group: Group, name: str) -> Extension | None:
    """The extension of this name: looktwice's own, else that of an installed package."""
    return _own().get(group, {}).get(name) or _installed().get(group, {}).get(name)


def list_extensions(group: Group) -> dict[str, Extension]:
    """All extensions of a group by name: looktwice's own, then those of installed packages."""
    own = dict(_own().get(group, {}))
    return own | {k: v for k, v in _installed().get(group, {}).items() if k not in own}


def own_classes() -> Mapping[str, Extension]:
    """The classes of our extensions by the paths under which they stand in studies and records."""
    return _own().get("classes", {})


def own_class(path: str) -> Extension | None:
    """The class of our extensions that stands under this path in studies and records."""
    return own_classes().get(path)


def public_name(module: str, name: str) -> str:
    """The path under which a class of our extensions stands in studies and records; empty for one
    that has none."""
    place = f"{module}:{name}"
    own = own_classes().items()
    return next((path for path, extension in own if extension.place == place), "")


@cache
def _own() -> Table:
    if find_spec(OWN) is None:
        return {}
    table: Table = import_module(OWN).EXTENSIONS
    return table


@cache
def _installed() -> Table:
    """The tables of installed packages; one that cannot be opened is warned of and left out."""
    merged: dict[str, dict[str, Extension]] = {group: {} for group in GROUPS}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            for group, entries in point.load().items():
                for name, entry in entries.items():
                    merged[group].setdefault(name, Extension(*entry))
        except Exception as exc:
            why = f"{type(exc).__name__}: {exc}"
            warnings.warn(f"the extension {point.value} cannot be opened ({why})", stacklevel=2)
    return merged
