"""What tasks of questions in rows share: reading them, what is left out, the subset, and the
items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from looktwice.eval.tasks.base import RowErrors, Subset
from looktwice.pipelines.marks import Marks
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample


@dataclass(frozen=True, eq=False)
class RowQuestion:
    """A question of the row `number`, without its images; `answer` None is a key that is kept
    back.

    `images`, and choices that are a Path, name files; where the cells of the row hold the images,
    they are empty.
    """

    number: int
    id: str
    question: str
    choices: tuple[str | Path, ...]
    answer: str | None
    meta: Mapping[str, Any]
    images: tuple[str, ...] = ()
    marks: Marks = ()


Questions = list[RowQuestion]
Pictures = tuple[Picture, ...]


class RowTask:
    """A task whose questions are rows of a file; a subclass is a frozen dataclass with its settings
    as fields.

    It gives the rows (`_cells`), what a row asks (`_questions`) and its images (`_pictures`).
    Settings that it does not have keep the values below. `numbered` gives meta fields from the
    number of a row, for files that tell pairs and groups by their order alone: `[step]` is number
    // step, and `[step, of]` that modulo `of`. `truth` names meta fields that scoring alone may
    read, such as boxes of the answer.
    """

    path: Path | None
    subset: Subset
    hub: str = ""
    numbered: Mapping[str, Sequence[int]] = {}
    truth: Sequence[str] = ()
    units: ClassVar[str] = "rows"
    whole: ClassVar[bool] = False  # no row may be left out

    def _cells(self) -> Iterator[tuple[int, Any]]:
        """The rows with their numbers."""
        raise NotImplementedError

    def _questions(self, number: int, cells: Any) -> Iterable[RowQuestion]:
        """What the row asks. Raises ValueError with the reason why it cannot be used."""
        raise NotImplementedError

    def _pictures(self, question: RowQuestion, cells: Any) -> Pictures:
        """The images of a question; `cells` are those that hold them, where cells do."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """The items in their order."""
        yield from (self._item(question, {}) for question in self._chosen)

    def _item(self, question: RowQuestion, cells: Any) -> Item:
        choices = tuple(Picture.open(c) if isinstance(c, Path) else c for c in question.choices)
        sample = Sample(
            question.id,
            question.question,
            self._pictures(question, cells),
            choices,
            question.marks,
            {name: value for name, value in question.meta.items() if name not in self.truth},
        )
        truth = {name: question.meta[name] for name in self.truth if name in question.meta}
        return Item(sample, question.answer, truth)

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(Path(self.path or self.hub).name, self.units)

    @cached_property
    def _times(self) -> Counter[str]:
        """How many questions each image, or whatever else repeats, has so far."""
        return Counter()

    @cached_property
    def _rows(self) -> Questions:
        """Every usable question; a row with an id that came before is left out."""
        faults, total = self._left_out, 0
        faults.clear()
        self._times.clear()
        questions: Questions = []
        for total, (number, cells) in enumerate(self._cells(), 1):  # noqa: B007
            try:
                asked = list(self._questions(number, cells))
            except ValueError as exc:
                faults.add(number, exc)
                continue
            places = {name: _place(number, *steps) for name, steps in self.numbered.items()}
            if not any(faults.repeats(number, question.id) for question in asked):
                questions += (replace(q, meta={**q.meta, **places}) for q in asked)
        return self._usable(questions, total)

    def _usable(self, questions: Questions, total: int) -> Questions:
        """The questions that can be asked. Raises TaskError where too many of the rows cannot be
        used."""
        if self.whole:
            self._left_out.raise_any()
        self._left_out.check_share(total)
        return questions

    @cached_property
    def _chosen(self) -> Questions:
        rows = [(asked.id, {**asked.meta, "answer": asked.answer}) for asked in self._rows]
        return [self._rows[place] for place in self.subset.choose(rows, self.path or self.hub)]


def _place(number: int, step: int, of: int = 0) -> str:
    place = number // step
    return str(place % of if of else place)
