"""Interface of a benchmark: items in a fixed order, and the facts that tables list about the
benchmark.

To add a benchmark without code, describe its files to `Columns` (a parquet, JSONL, CSV or TSV
table), `Tsv` (VLMEvalKit's) or `Folder` (JSON lines beside images). With code: write a frozen
dataclass in a file of this room whose fields are its settings, which iterates over `Item`s and has
`__len__` and `facts`; name it in one line of `__init__.pyi`. For a table of questions, derive it
from `table_task.TableTask`, as `own_tables.py` does; its own metrics go into a `Scorer` that its
facts name (`eval.scoring`). Its test goes to `tests/eval/tasks/`.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from looktwice.pipelines.config.classes import AbsentPartError, suggest_names
from looktwice.pipelines.sample import Item, describe_item_fault

Fields = Mapping[str, Any]
"""The known facts about a question, by field name."""


class TaskError(ValueError):
    """An error for a task whose data cannot be used; the message names the file and row, what was
    found and what to do."""


class AbsentTask(AbsentPartError, TaskError):
    """An error for a task whose files are missing, while the benchmark's other tasks may be
    present."""


@dataclass(frozen=True)
class Facts:
    """The facts about a task that every table lists: split, label version, applicable errata, and a
    note.

    `revision` identifies the files (a hash or a commit); `left_out` states how many rows are not
    asked, which ones and why; `scorer` is the benchmark's own scorer (`eval.scoring.Scorer`), or
    its node.
    """

    split: str = ""
    label_version: str = ""
    errata: tuple[str, ...] = ()
    note: str = ""
    revision: str = ""
    left_out: tuple[str, ...] = ()
    scorer: Any = field(default_factory=dict)


@dataclass(frozen=True)
class Subset:
    """A selection of `n` items by `seed`, or of `n` for each value of the field `per`, out of all
    items or those listed in `ids`.

    `per` names a meta field, or is "answer". Items that share the value of the field `whole`, such
    as the questions of one image or pair, are selected together, and `n` counts these groups. The
    selection depends only on ids and `seed`, so it is stable when other items are added or removed,
    and a larger `n` contains a smaller one. If `n` is None, everything is kept.
    """

    n: int | None = None
    per: str | None = None
    whole: str | None = None
    seed: int = 0
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # 0 is refused later, where the error can name the file
        if self.n is not None and self.n < 0:
            raise TaskError(
                f"subset.n, the number of items to keep, must be 1 or more, or null; found {self.n}"
            )

    def choose(
        self, rows: Sequence[tuple[str, Fields]], where: object = "", names: Sequence[str] = ()
    ) -> list[int]:
        """Return the indices of the selected rows in order; a row is (id, its fields), `names` are
        the sample ids if they differ from the rows' ids.

        Raises TaskError if a row lacks the field or no row is left; `where` names the file in the
        message.
        """
        chosen = list(range(len(rows)))
        if self.ids:
            identifiers = list(names) or [identifier for identifier, _ in rows]
            places = dict(zip(identifiers, chosen, strict=True))
            if unknown := [name for name in self.ids if name not in places]:
                raise TaskError(
                    f"{where or 'subset'}: ids: there is no item {unknown[0]!r}; ids look like"
                    f" {next(iter(places), 'none')!r}"
                )
            chosen = sorted(set(map(places.__getitem__, self.ids)))
        if self.n is not None:
            chosen = sorted(self._draw(rows, chosen))
        if not chosen:
            raise TaskError(
                f"{f'{where}: ' if where else ''}the subset {self} keeps none of {len(rows)}"
                " questions"
            )
        return chosen

    def _draw(self, rows: Sequence[tuple[str, Fields]], numbers: Sequence[int]) -> Iterator[int]:
        groups: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number in numbers:
            identifier, fields = rows[number]
            for setting, name in (("per", self.per), ("whole", self.whole)):
                if name is not None and name not in fields:
                    raise TaskError(
                        f"subset.{setting}: item {identifier} has no field {name!r}; it has"
                        f" {sorted(fields)}"
                    )
            unit = identifier if self.whole is None else str(fields[self.whole])
            groups[str(fields[self.per]) if self.per else ""][unit].append(number)
        for units in groups.values():
            for unit in sorted(units, key=lambda unit: make_random_order(unit, self.seed))[
                : self.n
            ]:
                yield from units[unit]


def make_random_order(name: str, seed: int) -> bytes:
    """Return a sort key that puts samples in random order, depending only on their ids and the
    seed."""
    return hashlib.sha256(f"{seed}\n{name}".encode()).digest()


class Task(Protocol):
    """A frozen dataclass whose fields are its settings. Iterating yields the task's items lazily,
    in the same order every time.

    Images are handles that are read when a stage needs them, so iterating is cheap. Raises
    TaskError if the data cannot be used; an unreadable image fails only its own sample.
    """

    @property
    def facts(self) -> Facts: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Item]: ...


class GeneratedTask(ABC):
    """A task that generates its questions one by one, each from nothing but its number and the
    settings.

    A question can be generated without the others, so a finished run need not generate them again.
    A subclass defines a question's id (`_id`) and content (`_item`).
    """

    n: int
    subset: Subset

    def __len__(self) -> int:
        return len(self._selected_numbers)

    def __iter__(self) -> Iterator[Item]:
        """Yield the questions in order, each generated when it is needed."""
        return map(self._item, self._selected_numbers)

    def item(self, sample_id: str) -> Item | None:
        """Return the question with this id, or None."""
        number = self._number_by_id.get(sample_id)
        return None if number is None else self._item(number)

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """The split, label version and other facts about the task that tables list."""

    @abstractmethod
    def _id(self, number: int) -> str: ...

    @abstractmethod
    def _item(self, number: int) -> Item: ...

    def _get_known_fields(self, number: int) -> Fields:
        """Return the fields by which a subset may select a question."""
        return {}

    @cached_property
    def _number_by_id(self) -> dict[str, int]:
        return {self._id(number): number for number in self._selected_numbers}

    @cached_property
    def _selected_numbers(self) -> Sequence[int]:
        """The numbers of the selected questions."""
        fields = (
            self._get_known_fields if self.subset.per or self.subset.whole else lambda number: {}
        )
        return self.subset.choose([(self._id(n), fields(n)) for n in range(self.n)])


def require_positive(n: int | None) -> None:
    """Raise TaskError if the number of questions is less than 1."""
    if n is not None and (not isinstance(n, int) or n < 1):
        raise TaskError(f"n, the number of questions, must be 1 or more; found {n!r}")


@contextmanager
def prefix_task_errors(name: str) -> Iterator[None]:
    """Prefix every TaskError with the task's path in the study, `tasks.NAME`."""
    try:
        yield
    except TaskError as exc:
        raise TaskError(f"tasks.{name}: {exc}") from exc


def check_items(task: Task) -> Iterator[Item]:
    """Yield the items of a task. Raises TaskError at the first one that cannot be asked or
    recorded."""
    for item in task:
        if fault := describe_item_fault(item):
            raise TaskError(f"{type(task).__name__}: {fault}")
        yield item


def count_items(task: Task) -> int:
    """Return the number of items of a task. Raises TaskError if `__len__` does not return a
    number."""
    try:
        return len(task)
    except TaskError:
        raise
    except (TypeError, ValueError, OverflowError) as exc:
        raise TaskError(
            f"{type(task).__name__}: its `__len__` does not return the number of samples: {exc}"
        ) from exc


def find_item(task: Task, sample_id: str) -> Item | None:
    """Return the item with this id, or None. Raises TaskError."""
    if isinstance(task, GeneratedTask):
        return task.item(sample_id)
    return next((item for item in task if item.sample.id == sample_id), None)


# if a larger share of rows is faulty, the file or the settings are wrong rather than the rows
MAX_FAULTY_SHARE = 0.1
MAX_REASONS_IN_FACTS = 10  # reasons shown in a report
MAX_REASONS_IN_ERROR = 20  # reasons shown in an error
VARIABLE_PARTS_PATTERN = re.compile(
    r"\d+|'[^']*'|, "
)  # parts that differ between errors of one kind
MAX_SIMILAR_REASONS = 2  # similar errors shown after the first; more are only counted


@dataclass
class RowErrors:
    """The unusable parts of one source and the reasons; `units` names these parts, such as "rows"
    or "images".

    A task that leaves out faulty rows calls `check_share` at the end and puts `sentences` into its
    facts; a task that accepts no faulty row calls `raise_any`.
    """

    source: object = ""
    units: str = "rows"
    reasons: list[str] = field(default_factory=list)
    row_by_id: dict[str, int] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The singular of `units`."""
        return self.units.removesuffix("s")

    def clear(self) -> None:
        """Discard the errors from an interrupted read."""
        self.reasons, self.row_by_id = [], {}

    def add(self, where: int | str, why: object) -> None:
        """Add an error about the row with this number, or the file with this name."""
        self.reasons.append(
            f"{self.unit} {where}: {why}" if isinstance(where, int) else f"{where}: {why}"
        )

    def repeats(self, row: int, identifier: str) -> bool:
        """Return whether an earlier row has this id; if so, collect the later row as an error."""
        first = self.row_by_id.setdefault(identifier, row)
        if first != row:
            self.add(
                row, f"{self.unit} {first} already has the id {identifier!r}; ids must be unique"
            )
        return first != row

    def check_share(self, total: int) -> None:
        """Raise TaskError with the first errors if no part is usable, or if more than a tenth of
        the parts are unusable."""
        if total == 0:
            raise TaskError(f"{self.source} has no {self.units}, or the settings select none")
        if len(self.reasons) >= total or len(self.reasons) > max(1, MAX_FAULTY_SHARE * total):
            summary = f"{self.source}: {len(self.reasons)} of {total} {self.units} cannot be used"
            summary += " (the first is row 0)" * (self.units == "rows")
            raise TaskError("\n  ".join([summary, *self._format_first(MAX_REASONS_IN_FACTS)]))

    def raise_any(self) -> None:
        """Raise TaskError with the first twenty errors, if there are any."""
        if self.reasons:
            count = "1 fault" if len(self.reasons) == 1 else f"{len(self.reasons)} faults"
            raise TaskError(
                "\n  ".join([f"{self.source}: {count}", *self._format_first(MAX_REASONS_IN_ERROR)])
            )

    def make_empty_error(self, where: Path, wanted: str) -> TaskError:
        """Return the error to raise if no part can be used."""
        return TaskError(
            "\n  ".join([f"{where}: {wanted}", *self._format_first(MAX_REASONS_IN_FACTS)])
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences for `Facts.left_out`: the number of parts left out, then the first reasons;
        empty if no part is left out."""
        of = f" of {self.source}" if self.source else ""
        return (
            (
                f"{len(self.reasons)} {self.units}{of} left out",
                *self._format_first(MAX_REASONS_IN_FACTS),
            )
            if self.reasons
            else ()
        )

    def _format_first(self, limit: int) -> list[str]:
        """Return the first few lines, merging lines that differ only in numbers and quoted
        words."""
        kinds, lines = defaultdict[str, list[str]](list), list[str]()
        for line in self.reasons:
            kinds[VARIABLE_PARTS_PATTERN.sub("", line)].append(line)
        for line in self.reasons:
            first, *others = kinds[VARIABLE_PARTS_PATTERN.sub("", line)]
            if len(others) <= MAX_SIMILAR_REASONS:
                lines.append(line)
            elif line is first:
                lines.append(f"{line} ({len(others)} more like this)")
        more = [f"... and {len(lines) - limit} more"] if len(lines) > limit else []
        return [*lines[:limit], *more]


def suggest_among(word: str, among: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: it suggests a similar name, if there is
    one, and lists all known names."""
    return f"{suggest_name(word, names := tuple(among))} There are {', '.join(names)}"


def suggest_name(word: str, among: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: `; did you mean 'X'?`, or a full stop if
    no known name is similar."""
    return suggest_names(word, among) or "."
