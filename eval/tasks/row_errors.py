"""Collects rows and files that cannot be used, with the reasons, and reports them in one
message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config import did_you_mean

# where more rows than this are faulty, the file or the settings are wrong, and not the rows
MOST_SHARE = 0.1
IN_FACTS = 10  # reasons that a report repeats
IN_ERROR = 20  # more lines than this say nothing new about a file


@dataclass
class RowErrors:
    """Collects the parts of one source that cannot be used; `units` names these parts, such as
    "rows" or "images".

    A task that leaves faulty rows out ends with `check_share` and states `sentences` in its facts;
    a task that accepts none ends with `raise_any`.
    """

    source: object = ""
    units: str = "rows"
    found: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The singular of `units`."""
        return self.units.removesuffix("s")

    def clear(self) -> None:
        """Forget what was collected while reading stopped half-way."""
        self.found, self.ids = [], {}

    def add(self, where: int | str, why: str) -> None:
        """Collect what is wrong with the row of this number, or with the file of this name."""
        self.found.append(
            f"{self.unit} {where}: {why}" if isinstance(where, int) else f"{where}: {why}"
        )

    def repeats(self, row: int, identifier: str) -> bool:
        """Whether an earlier row has this id; the later row is then collected as an error."""
        first = self.ids.setdefault(identifier, row)
        if first != row:
            self.add(
                row,
                f"the id {identifier!r} is already that of {self.unit} {first}; ids must be unique",
            )
        return first != row

    def check_share(self, total: int) -> None:
        """Raises TaskError with the first errors if no part is usable, or more than a tenth of them
        is not."""
        if total == 0:
            raise TaskError(f"{self.source} holds no {self.unit}, or none that the settings keep")
        if len(self.found) >= total or len(self.found) > max(1, MOST_SHARE * total):
            summary = f"{self.source}: {len(self.found)} of {total} {self.units} cannot be used"
            raise TaskError("\n  ".join([summary, *self._first(IN_FACTS)]))

    def raise_any(self) -> None:
        """Raises TaskError with the first twenty errors, if there are any."""
        if self.found:
            count = "1 fault" if len(self.found) == 1 else f"{len(self.found)} faults"
            raise TaskError("\n  ".join([f"{self.source}: {count}", *self._first(IN_ERROR)]))

    def nothing_left(self, where: Path, wanted: str) -> TaskError:
        """The error to raise if nothing can be used."""
        return TaskError("\n  ".join([f"{where}: {wanted}", *self._first(IN_FACTS)]))

    @property
    def sentences(self) -> tuple[str, ...]:
        """For the facts: the count, then the first reasons; empty if nothing was left out."""
        of = f" of {self.source}" if self.source else ""
        return (
            (f"{len(self.found)} {self.units}{of} left out", *self._first(IN_FACTS))
            if self.found
            else ()
        )

    def _first(self, limit: int) -> list[str]:
        more = [f"... and {len(self.found) - limit} more"] if len(self.found) > limit else []
        return [*self.found[:limit], *more]


def suggest_among(word: str, among: Iterable[str]) -> str:
    """Ends a sentence about an unknown name with a spelling suggestion, if there is one, and all
    known names."""
    return f"{suggest_name(word, names := tuple(among))} There are {', '.join(names)}"


def suggest_name(word: str, among: Iterable[str]) -> str:
    """Ends a sentence about an unknown name: `; did you mean 'X'?`, or a full stop if no known name
    is similar."""
    return did_you_mean(word, among) or "."
