"""Rows of a data file that cannot be used: gathered with their reasons, counted, and reported in one message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config import did_you_mean

MOST_SHARE = 0.1  # where more rows than this are faulty, the file or the settings are wrong, and not the rows
SHOWN = 10


@dataclass
class LeftOut:
    """Gathers faulty rows of one file; `unit` is what a row is called in it."""

    file: str
    unit: str = "row"
    found: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    unread: int = 0

    def begin(self) -> None:
        """Forget an earlier reading that stopped half-way."""
        self.found, self.ids, self.unread = [], {}, 0

    def add(self, row: int, why: str) -> None:
        """Leave a row out."""
        self.found.append(f"{self.unit} {row}: {why}")

    def add_unread(self, row: int, why: str) -> None:
        """Leave out what is no row at all, so that nobody else has counted it."""
        self.unread += 1
        self.add(row, why)

    def repeats(self, row: int, identifier: str) -> bool:
        """Whether an earlier row has this id; the later row is then left out."""
        first = self.ids.setdefault(identifier, row)
        if first != row:
            self.add(row, f"the id {identifier!r} is already that of {self.unit} {first}")
        return first != row

    def check(self, total: int) -> None:
        """Raises TaskError with the first faults where nothing is left, or more than a tenth had to go."""
        if total == 0:
            raise TaskError(f"{self.file} holds no {self.unit}, or none that the settings keep")
        kept = total - len(self.found)
        if kept < 1 or len(self.found) > max(1, MOST_SHARE * total):
            shown = "\n  ".join(self.sentences[1:])
            raise TaskError(f"{self.file}: {len(self.found)} of {total} {self.unit}s cannot be used\n  {shown}")

    @property
    def sentences(self) -> tuple[str, ...]:
        """For the facts: first the count, then the rows up to the tenth; empty where none was left out."""
        if not self.found:
            return ()
        more = [f"... and {len(self.found) - SHOWN} more"] if len(self.found) > SHOWN else []
        return (f"{len(self.found)} {self.unit}s of {self.file} left out", *self.found[:SHOWN], *more)


MOST = 20  # more lines than this say nothing new about a file


@dataclass
class Faults:
    """What is wrong in one file; `unit` is what a row is called in it ("line" of a text, "row" of a table)."""

    file: Path
    unit: str = "row"
    found: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, row: int, text: str) -> None:
        """Note what is wrong in a row."""
        self.found.append(f"{self.unit} {row}: {text}")

    def seen(self, row: int, identifier: str) -> None:
        """Note an id; the second row that has it is a fault."""
        first = self.lines.setdefault(identifier, row)
        if first != row:
            self.add(row, f"the id {identifier!r} is already that of {self.unit} {first}; every id must be its own")

    def check(self) -> None:
        """Raises TaskError with every fault up to the twentieth, if there is one."""
        if self.found:
            more = [f"... and {len(self.found) - MOST} more"] if len(self.found) > MOST else []
            count = "1 fault" if len(self.found) == 1 else f"{len(self.found)} faults"
            raise TaskError("\n  ".join([f"{self.file}: {count}", *self.found[:MOST], *more]))


def among(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: the known word that is most alike, if one is, and all of them."""
    return f"{nearest(word, names := tuple(known))} There are {', '.join(names)}"


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean 'X'?` for the known word that is most alike, a stop where none is."""
    return did_you_mean(word, known) or "."
