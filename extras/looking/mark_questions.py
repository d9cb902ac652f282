"""Questions about a mark itself, to test whether a model sees it; any marker stage draws the mark,
on the images of any task."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, product
from math import dist
from typing import Literal

import numpy as np

from looktwice.eval.tasks.base import Facts, Task, TaskError
from looktwice.eval.tasks.photographs import deal_evenly, make_rng
from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import RGB, parse_rgb
from looktwice.prompting.markers.base import Marking

Aspect = Literal["present", "where", "shape", "color", "label", "count"]
ASPECT_QUESTIONS: dict[Aspect, tuple[str, tuple[str, ...]]] = {
    "present": ("Is there such a mark?", ("yes", "no")),
    "where": (
        "In which quarter of the image is the mark?",
        ("top left", "top right", "bottom left", "bottom right"),
    ),
    "shape": (
        "What was drawn?",
        ("a ring", "a dot", "a cross", "an arrow", "a polygon", "a rectangle", "an outline"),
    ),
    "color": (
        "What color is the mark?",
        ("red", "green", "blue", "yellow", "magenta", "cyan", "orange", "white", "black"),
    ),
    "label": ("Which letter is written beside the mark?", tuple("KMPRTXYZ")),
    "count": ("How many such marks are there?", ("1", "2", "3", "4")),
}
"""The question about each aspect of a mark, and its possible answers."""
MARK_QUESTION_PREFIX = (
    "To point something out, a mark may have been drawn on this image afterwards."
)
COLOR_VALUES: tuple[RGB, ...] = (
    (255, 0, 0),
    (0, 190, 0),
    (0, 0, 255),
    (255, 255, 0),
    (255, 0, 255),
    (0, 255, 255),
    (255, 140, 0),
    (255, 255, 255),
    (0, 0, 0),
)
DRAWN_SHAPES = {
    "Circles": "a ring",
    "Dots": "a dot",
    "Crosshairs": "a cross",
    "Arrows": "an arrow",
    "Polygons": "a polygon",
    "Rectangles": "a rectangle",
    "Contours": "an outline",
}
"""The shape that each marker and its subclasses draw."""
NO_MODEL = NoModel("a marker may not call a model")
_cached_counts: deque[tuple[Task, int]] = deque(maxlen=16)  # shared by aspects and markers


@dataclass(frozen=True)
class MarkQuestions:
    """Questions about the mark that the stage `mark` draws, on the images of every sample with
    marks of the task `of`. The question is about one `aspect`: whether there is a mark (half of the
    images have none), its position, shape, colour or label, or the number of marks (up to three
    more are drawn).

    Only the first mark of a sample is drawn, exactly as in a study whose stages include `mark`; if
    the question is about the label, the label is a letter. `seed` determines the answers and the
    order of choices. The correct answer is known by construction. The colour is given as the
    nearest of nine names; it is always that of `mark`, so sweep over markers if a model could guess
    it. The samples have no marks of their own, so markers among a study's stages do nothing here.
    The table `seen` of a report shows how often samples of the task `of` are right if their mark
    was seen. Raises TaskError for a marker that draws nothing; and depending on the question, for a
    marker whose shape is unknown, for a marker that draws no label, or for masks, which cannot be
    counted.
    """

    of: Task
    mark: Stage
    aspect: Aspect
    seed: int = 0

    def __post_init__(self) -> None:
        if self.aspect not in ASPECT_QUESTIONS:
            raise TaskError(
                f"aspect must be one of {', '.join(ASPECT_QUESTIONS)}, found {self.aspect!r}"
            )
        if self.aspect == "shape" and not self._shape:
            markers = ", ".join(DRAWN_SHAPES)
            raise TaskError(
                f"the shape of {type(self.mark).__name__} is unknown; use one of {markers}"
            )

    @property
    def facts(self) -> Facts:
        """The task's facts: the answers are known by construction, and the note names the
        marker."""
        return Facts("made", "by construction", note=f"marks by {type(self.mark).__name__}")

    def __len__(self) -> int:
        """Return the number of samples with marks."""
        return self._count

    def __iter__(self) -> Iterator[Item]:
        """Yield one question for each sample with marks, in order."""
        marked = (item.sample for item in self.of if item.sample.marks)
        return (self._make_question(number, sample) for number, sample in enumerate(marked))

    @cached_property
    def _count(self) -> int:
        for task, count in list(_cached_counts):
            if task is self.of:
                return count
        _cached_counts.append((self.of, sum(bool(item.sample.marks) for item in self.of)))
        return _cached_counts[-1][1]

    @property
    def _shape(self) -> str:
        names = (kind.__name__ for kind in type(self.mark).__mro__)
        return next((DRAWN_SHAPES[name] for name in names if name in DRAWN_SHAPES), "")

    def _make_question(self, number: int, sample: Sample) -> Item:
        text, words = ASPECT_QUESTIONS[self.aspect]
        dealt = str(deal_evenly(number, words, "mark", self.aspect, self.seed))
        marks = [*sample.marks[:1]]
        if self.aspect == "label":
            marks = [replace(marks[0], label=dealt)]
            if not isinstance(self.mark, Marking) or self.mark.list_labels(marks) != [dealt]:
                raise TaskError(f"{type(self.mark).__name__} draws no label beside this mark")
        if self.aspect == "count":
            marks += self._make_distractors(sample, marks[0], int(dealt) - 1)
        marked = replace(sample, marks=tuple(marks))
        views = self._draw(self.mark, marked)
        if self.aspect == "present" and dealt == "no":
            views = State.start(sample).views
        (x, y), (width, height) = marks[0].center, sample.images[marks[0].image].size
        quarter = f"{'top' if y < height / 2 else 'bottom'} {'left' if x < width / 2 else 'right'}"
        answers = {"where": quarter, "shape": self._shape}
        if self.aspect == "color":
            answers["color"] = self._name_color(marked)
        answer = answers.get(self.aspect, dealt)
        choices = words
        if len(words) > 4:  # three random wrong ones, and the right one at a dealt place
            wrong = [word for word in words if word != answer]
            rng = make_rng("mark", self.aspect, self.seed, sample.id)
            picked = [str(word) for word in rng.permutation(wrong)[:3]]
            picked.insert(deal_evenly(number, range(4), "place", self.aspect, self.seed), answer)
            choices = tuple(picked)
        asked = Sample(
            f"{sample.id}:{self.aspect}",
            f"{MARK_QUESTION_PREFIX} {text}",
            tuple(view.picture for view in views),
            choices,
            meta={"aspect": self.aspect, "of": sample.id},
        )
        return Item(asked, "ABCD"[choices.index(answer)], {"answer": answer})

    def _draw(self, marker: Stage, sample: Sample) -> tuple[View, ...]:
        before = State.start(sample)
        after = marker(before, NO_MODEL).views
        if [*map(id, after)] == [*map(id, before.views)]:
            raise TaskError(f"{type(marker).__name__} draws nothing on sample {sample.id}")
        return after

    def _name_color(self, sample: Sample) -> str:
        """Return the name of the marker's colour; if the marker chooses its colour by the image,
        name the colour of the pixel that drawing changes most, without labels."""
        bare = replace(self.mark, label=None) if isinstance(self.mark, Marking) else self.mark
        try:
            color = np.array(parse_rgb(str(getattr(bare, "color", ""))), float)
        except ValueError:
            changes = dict[int, Pixels]()
            for image, view in zip(sample.images, self._draw(bare, sample), strict=True):
                change = np.abs(view.pixels - image.pixels.astype(int)).sum(axis=2)
                most = np.unravel_index(change.argmax(), change.shape)
                changes[int(change.max())] = view.pixels[most]
            color = changes[max(changes)].astype(float)
        nearest = min(range(len(COLOR_VALUES)), key=lambda at: dist(COLOR_VALUES[at], color))
        return ASPECT_QUESTIONS["color"][1][nearest]

    def _make_distractors(self, sample: Sample, mark: Mark, count: int) -> Iterator[Mark]:
        """Yield `count` more marks of the same kind, in the centres of other cells of a three by
        three grid."""
        if isinstance(mark, Mask):
            raise TaskError(f"sample {sample.id}: only points and boxes can be counted, not masks")
        width, height = sample.images[mark.image].size
        middles = [(width * x / 6, height * y / 6) for x, y in product((1, 3, 5), repeat=2)]
        far = [dist(mark.center, middle) > min(width, height) / 4 for middle in middles]
        rng = make_rng("more marks", self.seed, sample.id)
        for number, (x, y) in enumerate(rng.permutation([*compress(middles, far)])[:count], 1):
            label = "ABCD"[number]
            if isinstance(mark, Box):
                left, top, right, bottom = mark.xyxy
                half = min(right - left, width / 3) / 2, min(bottom - top, height / 3) / 2
                yield Box(label, x - half[0], y - half[1], x + half[0], y + half[1], mark.image)
            else:
                yield Point(label, float(x), float(y), mark.image)
