"""Rows and files that cannot be used: collected with their reasons, counted, and reported in one message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config import did_you_mean

MOST_SHARE = 0.1  # where more rows than this are faulty, the file or the settings are wrong, and not the rows
IN_FACTS = 10  # reasons that a report repeats
IN_ERROR = 20  # more lines than this say nothing new about a file


@dataclass
class RowErrors:
    """Collects what cannot be used of one source; `units` is what its parts are called, such as "rows" or "images".

    A task that leaves faulty rows out ends with `check_share` and states `sentences` in its facts; a task that accepts
    none ends with `raise_any`.
    """

    source: object = ""
    units: str = "rows"
    found: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    extra: int = 0  # lines that are no rows, which nobody else counts

    @property
    def unit(self) -> str:
        """One of the units."""
        return self.units.removesuffix("s")

    def clear(self) -> None:
        """Forget an earlier reading that stopped half-way."""
        self.found, self.ids, self.extra = [], {}, 0

    def add(self, where: int | str, why: str) -> None:
        """Note what is wrong in the row of this number, or in the file of this name."""
        self.found.append(f"{self.unit} {where}: {why}" if isinstance(where, int) else f"{where}: {why}")

    def add_extra(self, row: int, why: str) -> None:
        """Note a line that is no row at all."""
        self.extra += 1
        self.add(row, why)

    def repeats(self, row: int, identifier: str) -> bool:
        """Whether an earlier row has this id; the later row is then noted."""
        first = self.ids.setdefault(identifier, row)
        if first != row:
            self.add(row, f"the id {identifier!r} is already that of {self.unit} {first}; every id must be its own")
        return first != row

    def check_share(self, total: int) -> None:
        """Raises TaskError with the first faults where nothing is left, or more than a tenth cannot be used."""
        if total == 0:
            raise TaskError(f"{self.source} holds no {self.unit}, or none that the settings keep")
        if len(self.found) >= total or len(self.found) > max(1, MOST_SHARE * total):
            said = f"{self.source}: {len(self.found)} of {total} {self.units} cannot be used"
            raise TaskError("\n  ".join([said, *self._first(IN_FACTS)]))

    def raise_any(self) -> None:
        """Raises TaskError with every fault up to the twentieth, if there is one."""
        if self.found:
            count = "1 fault" if len(self.found) == 1 else f"{len(self.found)} faults"
            raise TaskError("\n  ".join([f"{self.source}: {count}", *self._first(IN_ERROR)]))

    def nothing_left(self, where: Path, wanted: str) -> TaskError:
        """The error where nothing at all can be used."""
        return TaskError("\n  ".join([f"{where}: {wanted}", *self._first(IN_FACTS)]))

    @property
    def sentences(self) -> tuple[str, ...]:
        """For the facts: first the count, then the first reasons; empty where nothing was left out."""
        of = f" of {self.source}" if self.source else ""
        return (f"{len(self.found)} {self.units}{of} left out", *self._first(IN_FACTS)) if self.found else ()

    def _first(self, most: int) -> list[str]:
        more = [f"... and {len(self.found) - most} more"] if len(self.found) > most else []
        return [*self.found[:most], *more]


def among(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: the known word that is most alike, if one is, and all of them."""
    return f"{nearest(word, names := tuple(known))} There are {', '.join(names)}"


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean 'X'?` for the known word that is most alike, a stop where none is."""
    return did_you_mean(word, known) or "."
