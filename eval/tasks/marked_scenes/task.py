"""Drawn scenes with marked objects: any number of questions of nine kinds, each kind with its
control parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any, ClassVar, Literal

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.metrics import ControlScorer
from looktwice.eval.scoring.verdict import Samples, Score, Verdict
from looktwice.eval.tasks.base import Facts, Subset, TaskError, suggest_among
from looktwice.eval.tasks.marked_scenes.kinds import KINDS, MarkedSceneParameters
from looktwice.eval.tasks.marked_scenes.scene import Ground, Style, draw_things
from looktwice.eval.tasks.photographs import PHOTOGRAPHS, make_rng
from looktwice.eval.tasks.swept import Controls, KindAndControls, SweptTask
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

TEST_PHOTOS = ("camera", "chelsea", "moon", "retina", "rocket")
"""Backgrounds of the questions. The other photographs are for training on such scenes, so that a
trained model has never seen the test backgrounds."""
TRAINING_PHOTOS = tuple(name for name in PHOTOGRAPHS if name not in TEST_PHOTOS)
CONTROLS = {name: kind.controls for name, kind in KINDS.items()}
PAIR_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*%?\s*[,; ]\s*(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class SceneScorer(ControlScorer):
    """Scores `MarkedScenes` of one `kind`: a position is right if it lies within the object's box,
    and accuracy is sliced by `controls`.

    The metric `accuracy_along` is reported for every level of each control, and `kruskal_*` for
    each control.
    """

    kind: str
    controls: tuple[str, ...] = ()

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """Score a position: the last pair of numbers must lie in the box of the correct answer.
        Return None for other kinds, which are compared as in any task."""
        if self.kind != "where":
            return None
        pairs = PAIR_PATTERN.findall(answer)
        if not pairs:
            return Score(Verdict.UNREADABLE)
        left, top, right, bottom = map(float, (row.answer or "").split())
        x, y = map(float, pairs[-1])
        return Score.of(left <= x <= right and top <= y <= bottom)

    def guesser(self, samples: Samples) -> float | None:
        """Return the mean over samples of 1 / (number of possible answers); None if a row lacks
        that number."""
        shares = []
        for row in samples.values():
            possible = row.truth.get("possible")
            if not isinstance(possible, int) or possible < 1:
                return None
            shares.append(1 / possible)
        return fmean(shares)


class KindTask(SweptTask):
    """A swept task of scenes that asks one of several kinds of questions."""

    kind: str
    _controls: ClassVar[Mapping[str, Controls]]
    _note: ClassVar[str]

    def __post_init__(self) -> None:
        """Raise TaskError for an unknown kind, and in the same cases as other swept tasks."""
        if self.kind not in self._controls:
            hint = suggest_among(self.kind, self._controls)
            raise TaskError(f"there is no kind of question {self.kind!r}{hint}")
        super().__post_init__()

    @property
    def facts(self) -> Facts:
        """The task's facts: correct answers are known by construction, and the scorer slices
        accuracy by the controls."""
        scorer = SceneScorer(self.kind, tuple(self.levels))
        return Facts("made", "by construction", note=self._note, scorer=scorer)

    @property
    def _kind_and_controls(self) -> KindAndControls:
        return self.kind, self._controls[self.kind]


@dataclass(frozen=True)
class MarkedScenes(KindTask):
    """`n` questions of one `kind` about coloured shapes and lettered tiles on a plain or
    photographed background.

    Kinds: shape, color and symbol (of one marked object), larger and higher (of two objects marked
    A and B), count (of a colour, a shape or both), cell (of three rows and columns), present (one
    of four), where (x and y in percent). `controls` gives one level, or a list of levels, by
    parameter: `size` is the height in pixels of the object asked about, `things` the number of
    objects, `ratio` the ratio of two sizes, `drop` how many pixels one object is above the other,
    `overlap` the share of their sizes by which the objects of a pair cover each other. In every
    block of as many questions as there are combinations of levels, each combination occurs once,
    and scores are sliced by level; correct choices are dealt evenly, too.

    The drawing does not reveal what is marked or asked for. The choices are attributes or names of
    equally large objects in the picture, which have nothing else in common with the correct one. Of
    the other objects, as many are smaller as are larger. Every relation between two compared
    objects occurs, and so does every count. The row `guesser (level)` of every table is the
    accuracy of the best guesser who knows all this but sees no mark.

    Nothing is drawn on the images: the marked objects are in the sample's marks, as points or boxes
    (`mark`), and any stage may draw them. Images are 320 x 320 pixels. Question `i` depends only on
    kind, `controls`, `ground`, `seed` and `i`, not on `mark`. `subset` selects some of the
    questions. Raises TaskError.
    """

    kind: str
    n: int = 100
    seed: int = 0
    controls: Mapping[str, Any] = field(default_factory=dict)
    ground: Ground = "both"
    mark: Literal["point", "box"] = "point"
    subset: Subset = Subset()

    version: ClassVar[int] = 3

    _controls = CONTROLS
    _note = "generated images"

    def _item(self, number: int) -> Item:
        plan, style = self._plan(number), Style(ground=self.ground, photos=TEST_PHOTOS)
        words = ("marked scenes", self.kind, self.ground, self.seed, number)
        rng = make_rng(*words, *(f"{name}={level}" for name, level in plan.items()))

        asked = KINDS[self.kind].make(
            MarkedSceneParameters(rng, plan, partial(self._deal, number), style=style)
        )
        marks: list[Mark] = []
        for label, thing in zip("AB", asked.marked_things, strict=False):
            point = Point(label, thing.x - 0.5, thing.y - 0.5)
            marks.append(Box(label, *thing.box) if self.mark == "box" else point)
        name, question = self._id(number), asked.question
        picture = Picture(draw_things(rng, asked.things, style), name)
        meta = {"kind": self.kind, **plan}
        sample = Sample(name, question.text, (picture,), question.choices, tuple(marks), meta)
        truth = {
            "things": [thing.to_dict() for thing in asked.things],
            "possible": asked.possible_answer_count,
        }
        return Item(sample, question.key, truth)
