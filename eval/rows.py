"""The faults of a data file's rows, gathered so that one message tells them all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from looktwice.eval.task import TaskError

__all__ = ["Faults", "among", "nearest"]

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
    by_case = {name.casefold().replace(" ", "_"): name for name in known}
    close = difflib.get_close_matches(word.casefold().replace(" ", "_"), by_case, 1)
    return f"; did you mean {by_case[close[0]]!r}?" if close else "."
