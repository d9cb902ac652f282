"""What a benchmark is: items in a fixed order, and the facts that a table must state about them.

To add one without any code, describe its files to `Columns` (a parquet, JSONL, CSV or TSV table),
`Tsv` (VLMEvalKit's) or `Folder` (JSON lines beside images). With code: write a frozen dataclass in
a file of this room whose fields are its settings, which iterates over `Item`s and has `__len__` and
`facts`; name it in one line of `__init__.pyi`. For a table of questions derive it from
`table_task.TableTask`, which `columns.py` shows; a metric of its own is a `Scorer` that its facts
name (`eval.scoring`). Its test goes to `tests/eval/tasks/`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from looktwice.pipelines.sample import Item, say_item_fault


class TaskError(ValueError):
    """A task whose data cannot be used; the message names the file and row, what was found and what
    to do."""


@dataclass(frozen=True)
class Facts:
    """What every table says of a task: split, label version, the errata that apply, and a remark.

    `revision` names the very files (a hash or a commit), `left_out` says which rows are not asked
    and why, the first entry with their count, and `scorer` is the benchmark's own scorer
    (`eval.scoring.Scorer`), or its node.
    """

    split: str = ""
    label_version: str = ""
    errata: tuple[str, ...] = ()
    note: str = ""
    revision: str = ""
    left_out: tuple[str, ...] = ()
    scorer: Any = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("split", "label_version", "note", "revision"):
            if not isinstance(value := getattr(self, name), str):
                raise TaskError(f"facts.{name} is a text, found {value!r:.80}")
        for name in ("errata", "left_out"):
            value = getattr(self, name)
            if not isinstance(value, tuple | list) or not all(
                isinstance(each, str) for each in value
            ):
                raise TaskError(f"facts.{name} is a tuple of texts, found {value!r:.80}")


@dataclass(frozen=True)
class Subset:
    """A choice of `n` items by `seed`, or of `n` for each value of the field `per`, of all or of
    those named in `ids`.

    `per` names a meta field, or is "answer". Items that share the field `whole`, such as the
    questions of one image or a pair, come all or none, and `n` counts what they share. The choice
    depends on ids and `seed` alone, so it stays the same when other items come or go, and a larger
    `n` contains a smaller one. `n` None keeps everything.
    """

    n: int | None = None
    per: str | None = None
    whole: str | None = None
    seed: int = 0
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # none at all says which file is left without a question
        if self.n is not None and self.n < 0:
            raise TaskError(
                f"subset.n is how many items are kept, 1 or more, or null for all; found {self.n}"
            )

    def choose(
        self,
        rows: Sequence[tuple[str, Mapping[str, Any]]],
        where: object = "",
        names: Sequence[str] = (),
    ) -> list[int]:
        """The numbers of the chosen rows in their order; a row is (id, its fields), `names` are its
        samples' ids if these are others.

        Raises TaskError where a row lacks the field, or none is left; `where` says of which file in
        its message.
        """
        chosen = list(range(len(rows)))
        if self.ids:
            places = {name: place for place, name in enumerate(names or [row[0] for row in rows])}
            for name in self.ids:
                if name not in places:
                    raise TaskError(
                        f"{where or 'subset'}: ids: there is no item {name!r}; ids look like"
                        f" {next(iter(places), 'none')!r}"
                    )
            chosen = sorted({places[name] for name in self.ids})
        if self.n is not None:
            chosen = [chosen[number] for number in self._chosen([rows[place] for place in chosen])]
        if not chosen:
            raise TaskError(
                f"{f'{where}: ' if where else ''}the subset {self} leaves no question of"
                f" {len(rows)}"
            )
        return chosen

    def _chosen(self, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[int]:
        groups: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, (identifier, fields) in enumerate(rows):
            for setting, name in (("per", self.per), ("whole", self.whole)):
                if name is not None and name not in fields:
                    raise TaskError(
                        f"subset.{setting}: item {identifier} has no field {name!r}; it has"
                        f" {sorted(fields)}"
                    )
            unit = identifier if self.whole is None else str(fields[self.whole])
            groups[str(fields[self.per]) if self.per else ""][unit].append(number)
        kept = (
            units[unit]
            for units in groups.values()
            for unit in sorted(units, key=self._rank)[: self.n]
        )
        return sorted(number for numbers in kept for number in numbers)

    def _rank(self, identifier: str) -> bytes:
        return hashlib.sha256(f"{self.seed}\n{identifier}".encode()).digest()


class Task(Protocol):
    """A frozen dataclass whose fields are its settings; iterating gives its items, lazily and
    always alike.

    Images are handles that are read when a stage looks at them, so iterating is cheap. Raises
    TaskError where the data cannot be used at all; a single image that cannot be read fails only
    its own sample.
    """

    @property
    def facts(self) -> Facts: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Item]: ...


class MadeTask(ABC):
    """A task whose questions are made one by one, each from its number and the settings alone.

    One question can be made without the others, and a finished run need not make them again to know
    them. A subclass says how a question is named (`_id`) and made (`_item`).
    """

    n: int
    subset: Subset

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """The questions in their order; each is made when it is asked for."""
        return map(self._item, self._chosen)

    def item(self, sample_id: str) -> Item | None:
        """The question of this id; None where there is none."""
        number = self._numbers.get(sample_id)
        return None if number is None else self._item(number)

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What a table must say of the task."""

    @abstractmethod
    def _id(self, number: int) -> str: ...

    @abstractmethod
    def _item(self, number: int) -> Item: ...

    def _known(self, number: int) -> Mapping[str, Any]:
        """The fields of a question by which a subset may choose it."""
        return {}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self._id(number): number for number in self._chosen}

    @cached_property
    def _chosen(self) -> Sequence[int]:
        """The numbers of the questions that are asked."""
        fields = self._known if self.subset.per or self.subset.whole else lambda number: {}
        return self.subset.choose([(self._id(n), fields(n)) for n in range(self.n)])


def require_some(n: int | None) -> None:
    """Raise TaskError for a number of questions below 1."""
    if n is not None and n < 1:
        raise TaskError(f"n is how many questions are made, 1 or more; found {n}")


def checked_items(task: Task) -> Iterator[Item]:
    """The items of a task. Raises TaskError at the first that cannot be asked or written down."""
    for item in task:
        if fault := say_item_fault(item):
            raise TaskError(f"{type(task).__name__}: {fault}")
        yield item


def count_items(task: Task) -> int:
    """How many items a task has. Raises TaskError where it gives no number."""
    try:
        return len(task)
    except TaskError:
        raise
    except (TypeError, ValueError, OverflowError) as exc:
        raise TaskError(
            f"{type(task).__name__}: its `__len__` gives no number of samples: {exc}"
        ) from exc


def find_item(task: Task, sample_id: str) -> Item | None:
    """The item of this id; None where the task has none. Raises TaskError."""
    if isinstance(task, MadeTask):
        return task.item(sample_id)
    return next((item for item in task if item.sample.id == sample_id), None)
