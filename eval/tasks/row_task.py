"""The base class of tasks whose questions are rows; it reads and filters rows, selects a subset,
and makes items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from looktwice.eval.tasks.base import RowErrors, Subset
from looktwice.pipelines.marks import Marks
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

Moments = tuple[float | None, ...]


class VideoReader(Protocol):
    """A setting `video` of a task whose questions show videos, such as `eval.tasks.Video`."""

    def find_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of a table that hold the videos. Raises TaskError."""

    def read_moments(self, marks: Sequence[Mapping[str, Any]]) -> Moments:
        """Return the time of each mark, or None for a mark without a time. Raises ValueError."""

    def show_frames(self, sample: Sample, moments: Moments) -> Sample:
        """Replace the images of a sample, which are video files, by frames. A video that cannot be
        read becomes one picture that raises PictureError."""


@dataclass(frozen=True, eq=False)
class RowQuestion:
    """A question from row `number`, without its images; if `answer` is None, it is hidden.

    `images`, and choices that are a Path, name files; if the row's cells hold the images, `images`
    is empty. `moments` holds the times of the marks in a video, with None for a mark without a
    time.
    """

    number: int
    id: str
    question: str
    choices: tuple[str | Path, ...]
    answer: str | None
    meta: Mapping[str, Any]
    images: tuple[str, ...] = ()
    marks: Marks = ()
    moments: Moments = ()


Questions = list[RowQuestion]
Pictures = tuple[Picture, ...]


class RowTask:
    """A task whose questions are rows of a file; a subclass is a frozen dataclass with its settings
    as fields.

    The subclass defines the rows (`_cells`), the questions of a row (`_questions`) and their images
    (`_pictures`). Settings that it lacks keep the values below. `numbered` makes meta fields from a
    row's number, for files that define pairs and groups only by order: `[step]` is number // step,
    and `[step, of]` is number // step % of. `truth` names meta fields for scoring only, such as
    boxes of the answer. With `video`, the images are videos, from which questions show frames.
    """

    path: Path | None
    subset: Subset
    hub: str = ""
    numbered: Mapping[str, Sequence[int]] = {}
    truth: Sequence[str] = ()
    video: VideoReader | None = None
    units: ClassVar[str] = "rows"
    every_row_required: ClassVar[bool] = False  # no row may be left out

    def _cells(self) -> Iterator[tuple[int, Any]]:
        """Yield the rows with their numbers."""
        raise NotImplementedError

    def _questions(self, number: int, cells: Any) -> Iterable[RowQuestion]:
        """Return the questions of a row. Raises ValueError with the reason if it cannot be used."""
        raise NotImplementedError

    def _pictures(self, question: RowQuestion, cells: Any) -> Pictures:
        """Return the images of a question; `cells` holds them if they are in the table."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._selected_questions)

    def __iter__(self) -> Iterator[Item]:
        """Yield the items in order."""
        yield from (self._item(question, {}) for question in self._selected_questions)

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
        if self.video is not None:
            sample = self.video.show_frames(sample, question.moments)
        truth = {name: question.meta[name] for name in self.truth if name in question.meta}
        return Item(sample, question.answer, truth)

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(Path(self.path or self.hub).name, self.units)

    @cached_property
    def _repeat_counts(self) -> Counter[str]:
        """For each image, or another value that repeats, the number of questions read so far."""
        return Counter()

    @cached_property
    def _usable_questions(self) -> Questions:
        """All usable questions; a row that repeats an earlier id is left out."""
        faults, total = self._left_out, 0
        faults.clear()
        self._repeat_counts.clear()
        questions: Questions = []
        for total, (number, cells) in enumerate(self._cells(), 1):  # noqa: B007
            try:
                asked = list(self._questions(number, cells))
            except ValueError as exc:
                faults.add(number, exc)
                continue
            places = {name: _get_group(number, *steps) for name, steps in self.numbered.items()}
            if not any(faults.repeats(number, question.id) for question in asked):
                questions += (replace(q, meta={**q.meta, **places}) for q in asked)
        return self._filter_usable(questions, total)

    def _filter_usable(self, questions: Questions, total: int) -> Questions:
        """Return the usable questions. Raises TaskError if too many rows are unusable."""
        if self.every_row_required:
            self._left_out.raise_any()
        self._left_out.check_share(total)
        return questions

    @cached_property
    def _selected_questions(self) -> Questions:
        rows = [
            (asked.id, {**asked.meta, "answer": asked.answer}) for asked in self._usable_questions
        ]
        return [
            self._usable_questions[place]
            for place in self.subset.choose(rows, self.path or self.hub)
        ]


def _get_group(number: int, step: int, of: int = 0) -> str:
    place = number // step
    return str(place % of if of else place)
