"""Any number of questions with known answers, generated from real photographs without downloads or
labelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np
from numpy.random import Generator

from looktwice.eval.tasks.base import (
    Facts,
    Fields,
    GeneratedTask,
    Subset,
    TaskError,
    require_positive,
)
from looktwice.eval.tasks.photographs import (
    PHOTOGRAPHS,
    Light,
    QuestionImages,
    cut_window,
    deal_evenly,
    draw_corner,
    load_photograph,
    make_rng,
)
from looktwice.eval.tasks.photos.correspondence import draw_correspondence, draw_depth, draw_stereo
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Item, Sample


class PhotoKind(NamedTuple):
    """A kind of question: its text, its choices, its default strength, and the note about it in
    tables."""

    question: str
    choices: tuple[str, ...]
    strength: float
    note: str


JIGSAW_QUESTION = (
    "The lower right quarter of the first image is missing. Which image shows the missing piece?"
)
JIGSAW_CHOICES = ("the second image", "the third image")
_get_installed_version = cache(version)  # called once per arm; it searches a folder
SOURCES = ("photos", "stereo", "both")
KINDS = {
    "jigsaw": PhotoKind(
        JIGSAW_QUESTION,
        JIGSAW_CHOICES,
        0.0,
        "several crops of each of 12 photographs: questions on one photograph are not independent",
    ),
    "correspondence": PhotoKind(
        "Which point on the second image shows the same spot as the point REF on the first image?",
        ("Point A", "Point B", "Point C", "Point D"),
        0.5,
        "several windows on each of 14 photographs and one stereo pair: questions on one photograph"
        " are not independent",
    ),
    "depth": PhotoKind(
        "Which of the two points on the image is closer to the camera?",
        ("Point A", "Point B"),
        0.0,
        "one scene: every question is about the Middlebury Motorcycle pair, so n counts points, not"
        " scenes",
    ),
}
SECOND_VIEW_SENTENCE = " The second image shows the same scene from slightly to the right."


@dataclass(frozen=True)
class Photos(GeneratedTask):
    """`n` questions of one `kind` on the photographs that come with scikit-image.

    `jigsaw`, as BLINK constructs it: the upper left 2x2 of a 3x3 grid with its last piece black,
    and two pieces to choose from. `correspondence`: REF on the first image, four candidates on the
    second, by homography (`source: photos`) or true disparity (`stereo`, which is every fifth
    question of `both`). `depth`: two points on the left view of the stereo pair; the right view is
    the second image unless `pair` is false. The truth is known by construction, or by the pair's
    measured disparity.

    `strength` in 0..1 is the difference in viewpoint and light (for jigsaw the light of the pieces,
    for stereo that of the second view); None is 0 for jigsaw and depth and 0.5 for correspondence.
    `turn` is the rotation of the second view of a correspondence at strength 1, in degrees in
    either direction. `quality` is the JPEG quality of the images for models and specialists; None
    sends them lossless. Question `i` depends only on kind, source, turn, `seed` and `i`, and is
    about the same spots for every strength and quality, so a sweep over these asks the same
    questions. Answers are dealt evenly: in every block of as many questions as there are letters,
    each letter occurs once. Images are not marked; points are in `marks`. Scores can be sliced by
    `photo`, `source` and, for depth, the `ratio` of the disparities. `subset` selects some of the
    questions. Raises TaskError.
    """

    kind: Literal["jigsaw", "correspondence", "depth"]
    n: int = 60
    seed: int = 0
    strength: float | None = None
    quality: int | None = None
    source: Literal["photos", "stereo", "both"] = "both"
    pair: bool = True
    turn: float = 40.0
    subset: Subset = Subset()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise TaskError(f"kind must be one of {', '.join(KINDS)}, found {self.kind!r}")
        if self.source not in SOURCES:
            raise TaskError(f"source must be one of {', '.join(SOURCES)}, found {self.source!r}")
        require_positive(self.n)
        for name, most in (("strength", 1), ("quality", 100), ("turn", 90)):
            value, least = getattr(self, name), int(name == "quality")
            if value is not None and not least <= value <= most:
                raise TaskError(f"{name} must be in {least}..{most}, found {value}")
        if self.source != "both" and self.kind != "correspondence":
            raise TaskError(
                f"source can be set only for correspondence; {self.kind} has one source"
            )
        if not self.pair and self.kind != "depth":
            raise TaskError(
                f"pair can be set only for depth; {self.kind} always shows the same images"
            )

    @property
    def facts(self) -> Facts:
        """The task's facts: correct answers are known by construction, and the note gives the
        number of scenes."""
        label_version = f"by construction, scikit-image {_get_installed_version('scikit-image')}"
        return Facts("made", label_version, note=KINDS[self.kind].note)

    def _id(self, number: int) -> str:
        return f"{self.kind}_{number:04}"

    def _get_known_fields(self, number: int) -> Fields:
        """Return the fields of a question that are known before it is generated."""
        kind, words = KINDS[self.kind], (self.kind, self.seed)
        stereo = self.kind == "depth" or self.source == "stereo"
        if self.kind == "correspondence" and self.source == "both":
            stereo = number % 5 == 4
        scenes = (
            JIGSAW_SCENES if self.kind == "jigsaw" else ("motorcycle",) if stereo else PHOTOGRAPHS
        )
        letters = "ABCD"[: len(kind.choices)]
        return {
            "kind": self.kind,
            "photo": deal_evenly(number, scenes, "photo", *words),
            "source": "stereo" if stereo else "photos",
            "strength": kind.strength if self.strength is None else float(self.strength),
            "quality": self.quality,
            "answer": deal_evenly(number, letters, "letter", *words),
        }

    def _item(self, number: int) -> Item:
        plan, kind, name = dict(self._get_known_fields(number)), KINDS[self.kind], self._id(number)
        answer = plan.pop("answer")
        drawn = self._draw(number, plan, answer)
        pictures = []
        for place, pixels in enumerate(drawn.images):
            title = f"{name} image {place}"
            if self.quality is None:
                pictures.append(Picture(pixels, title))
            else:
                settings = [cv2.IMWRITE_JPEG_QUALITY, self.quality]
                _, data = cv2.imencode(".jpg", pixels[:, :, ::-1], settings)
                pictures.append(Picture.encoded(bytes(data), title))
        question = kind.question + SECOND_VIEW_SENTENCE * (self.kind == "depth" and self.pair)
        meta = {**plan, **drawn.meta}
        sample = Sample(name, question, tuple(pictures), kind.choices, drawn.marks, meta)
        return Item(sample, answer)

    def _draw(self, number: int, plan: Mapping[str, Any], answer: str) -> QuestionImages:
        rng = make_rng("draw", self.kind, plan["source"], self.seed, number)
        rank = deal_evenly(number, range(4), "rank", self.kind, self.seed)
        if self.kind == "jigsaw":
            return draw_jigsaw(rng, plan["photo"], answer, plan["strength"])
        if self.kind == "depth":
            return draw_depth(rng, answer, rank % 2 == 1, rank > 1, plan["strength"], self.pair)
        if plan["source"] == "stereo":
            return draw_stereo(rng, answer, rank, plan["strength"])
        return draw_correspondence(rng, plan["photo"], answer, rank, plan["strength"], self.turn)


JIGSAW_SCENES = tuple(name for name in PHOTOGRAPHS if name not in ("hubble", "retina"))
"""Photographs whose pieces continue one another: all except `hubble`, because of its stars, and
`retina`, because of its black frame."""

PIECE_WIDTH = 200  # pixels wide, as in BLINK's files
PIECE_HEIGHTS = (100, 120)  # of a piece; BLINK's are between 83 and 125, mostly 105 to 110
CROP_WIDTH_SHARES = (0.6, 1.0)  # of the crop, as a share of the widest that the photograph allows
# rows and columns of the pieces that are not shown
HIDDEN_PIECES = ((0, 2), (1, 2), (2, 0), (2, 1), (2, 2))
# standard deviation in grey levels; a flatter piece has nothing to continue
MIN_PIECE_CONTRAST = 8.0
# mean absolute difference in grey levels; below, the pieces look the same
MIN_PIECE_DIFFERENCE = 12.0


def draw_jigsaw(rng: Generator, scene: str, letter: str, strength: float) -> QuestionImages:
    """Draw the upper left 2x2 pieces of a 3x3 grid, the last of them black, then the two pieces to
    choose from.

    The missing piece is the centre of the grid; the other one is drawn from the five that are not
    shown (BLINK, section 3.2). Pieces are 200 px wide. `strength` is that of one photometric change
    of both pieces, but not of the first image; at 0, as in BLINK, the pieces continue it exactly.
    Raises TaskError.
    """
    return cut_jigsaw(rng, load_photograph(scene), f"the photograph {scene!r}", letter, strength)


def cut_jigsaw(
    rng: Generator,
    photo: Pixels,
    name: str,
    letter: str,
    strength: float = 0.0,
    whole: bool = False,
) -> QuestionImages:
    """Draw a jigsaw from any photograph, HxWx3, as `draw_jigsaw` does; with `whole`, the pieces
    cover the whole photograph, in its own aspect ratio, instead of a random crop."""
    for _ in range(200):
        grid, crop = _cut_grid(rng, photo, whole)
        row, column = HIDDEN_PIECES[int(rng.integers(len(HIDDEN_PIECES)))]
        missing, distractor = grid[1, :, 1], grid[row, :, column]
        difference = np.abs(missing.astype(np.int16) - distractor).mean()
        if (
            min(missing.std(), distractor.std()) >= MIN_PIECE_CONTRAST
            and difference >= MIN_PIECE_DIFFERENCE
        ):
            break
    else:
        raise TaskError(f"{name} has no two different pieces{'' if whole else ' in any crop'}")
    light = Light.draw(rng, strength)
    pieces = [light(piece, rng) for piece in (missing, distractor)]
    board = grid[:2, :, :2].copy()
    board[1, :, 1] = 0
    board = board.reshape(2 * grid.shape[1], 2 * PIECE_WIDTH, 3)
    images = (board, *(pieces if letter == "A" else pieces[::-1]))
    meta = {"crop": crop, "distractor": [row, column], **light.settings}
    return QuestionImages(images, meta=meta)


def _cut_grid(rng: Generator, photo: Pixels, whole: bool) -> tuple[Pixels, list[int]]:
    """Return the pieces (3, height, 3, width, 3) of a crop, and its left, top, right and bottom
    edge in the photograph."""
    tall, wide = photo.shape[:2]
    left, top, size = 0, 0, (wide, tall)
    height = max(8, round(PIECE_WIDTH * tall / wide))
    if not whole:
        height = int(rng.integers(*PIECE_HEIGHTS, endpoint=True))
        width = round(min(wide, tall * PIECE_WIDTH // height) * rng.uniform(*CROP_WIDTH_SHARES))
        size = (width, width * height // PIECE_WIDTH)
        left, top = draw_corner(rng, (wide, tall), size)
    crop = cut_window(photo, (left, top), size)
    kind = cv2.INTER_AREA if size[0] > 3 * PIECE_WIDTH else cv2.INTER_CUBIC
    sized = np.asarray(
        cv2.resize(crop, (3 * PIECE_WIDTH, 3 * height), interpolation=kind), np.uint8
    )
    return sized.reshape(3, height, 3, PIECE_WIDTH, 3), [left, top, left + size[0], top + size[1]]
