"""Samples with blank images, fixed evidence, and a check of the answer of a rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from looktwice.pipelines.marks import Mark
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.specialists.protocols import Matcher
from looktwice.specialists.results import Boxes, DepthMap, Faces, Matches

BLANK = np.zeros((100, 100, 3), np.uint8)


def make_sample(
    question: str = "Which?",
    choices: Sequence[Any] = (),
    images: int | Sequence[Pixels] = 1,
    marks: Sequence[Mark] = (),
    name: str = "s1",
) -> Sample:
    """Return a sample; blank images have their number in the first pixel and white in the last."""
    pixels = (
        [numbered_image(number) for number in range(images)] if isinstance(images, int) else images
    )
    return Sample(name, question, tuple(map(Picture, pixels)), tuple(choices), tuple(marks))


def numbered_image(number: int) -> Pixels:
    pixels = BLANK.copy()
    pixels[0, 0], pixels[-1, -1] = number, 255
    return pixels


def check(stage: Stage, sample: Sample, answer: str | None, reason: str = "") -> State:
    """Run a rule and check its answer and confidence (0..1), or its reason for abstaining."""
    state = stage(State(sample), NoModel())
    assert state.answer == answer, state.reason
    if answer is None:
        assert state.reason.startswith(f"abstained: {reason}"), state.reason
        assert reason
    else:
        assert state.reason == ""
        assert state.confidence is not None
        assert 0 <= state.confidence <= 1
    return state


@dataclass(frozen=True)
class Plane:
    """Nearness that increases with the column."""

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        return DepthMap(np.tile(np.arange(100.0), (100, 1)), True)


@dataclass(frozen=True)
class Paint:
    """Reflectance (left half, right half) as linear grey."""

    left: float
    right: float
    unknown: bool = False

    def __call__(self, pixels: Pixels, /) -> Any:
        albedo = np.full((100, 100, 3), self.left)
        albedo[:, 50:] = self.right
        if self.unknown:
            albedo[:, 50:] = np.nan
        return albedo


DARK = ("A is darker", "B is darker", "About the same")


def make_matcher(*across: float) -> Matcher:
    """Return a matcher whose matches move right by these distances."""
    rng = np.random.default_rng(0)
    xy = rng.uniform(0, 100, (len(across), 2))
    found = Matches(xy, xy + np.stack([across, np.zeros(len(across))], 1), np.ones(len(across)))
    return lambda one, two: found


def boxes(
    *rows: tuple[float, float, float, float],
    labels: Sequence[str] = (),
    scores: Sequence[float] = (),
) -> Boxes:
    names = list(labels) or ["thing"] * len(rows)
    return Boxes(
        np.array(rows, float).reshape(-1, 4),
        np.array(scores or [0.9] * len(rows)),
        np.array(names, str),
    )


@dataclass(frozen=True, eq=False)
class FixedDetector:
    """A detector that always finds the same boxes and records the requested words."""

    boxes: Boxes
    words: list[Any]

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        self.words.append(words)
        return self.boxes


def make_detector(*rows: tuple[float, float, float, float], **more: Any) -> FixedDetector:
    return FixedDetector(boxes(*rows, **more), [])


WHICH = "Which bounding box more accurately localizes and encloses the cat?"


SOME = (1, 1, 5, 5)


def make_face_detector(*people: Sequence[float]) -> Callable[[Pixels], Faces]:
    """Return a detector that finds the identities `people[n]` in image n, largest first."""

    def detector(pixels: Pixels, /) -> Faces:
        seen = people[int(pixels[0, 0, 0])]
        sides = [(0, 0, 50 - number, 50 - number) for number in range(len(seen))]
        vectors = np.array([[place, 0.0] for place in seen]).reshape(-1, 2)
        return Faces(np.array(sides, float), np.ones(len(seen)), vectors)

    return detector


SAME = "The persons in these images are the same person. Answer T or F."
