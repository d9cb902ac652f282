"""Jigsaw questions as BLINK makes them: which piece is the missing quarter of the first image?"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.random import Generator

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.photographs import (
    Light,
    QuestionImages,
    cut_window,
    photograph,
    random_corner,
)
from looktwice.pipelines.picture import Pixels

SCENES = (
    "astronaut",
    "brick",
    "camera",
    "chelsea",
    "coffee",
    "coins",
    "grass",
    "gravel",
    "ihc",
    "moon",
    "motorcycle",
    "rocket",
)
"""Photographs whose pieces continue each other: not the stars of `hubble`, nor `retina` with its
black frame."""

PIECE = 200  # pixels wide, as in BLINK's files
HEIGHTS = (100, 120)  # of a piece; BLINK's lie between 83 and 125, mostly at 105 to 110
WIDTHS = (0.6, 1.0)  # of the crop, as a share of the widest that the photograph allows
# rows and columns of the pieces that are not shown
OTHERS = ((0, 2), (1, 2), (2, 0), (2, 1), (2, 2))
PLAIN = 8.0  # standard deviation in grey levels: a flatter piece has nothing to continue
ALIKE = 12.0  # mean absolute difference in grey levels: below, the two pieces show the same


def draw_jigsaw(rng: Generator, scene: str, letter: str, strength: float) -> QuestionImages:
    """The upper left 2x2 of a 3x3 grid with its last piece black, then the two pieces to choose
    from.

    The missing piece is the centre of the grid, the other one is drawn from the five that are not
    shown (BLINK, section 3.2). Pieces are 200 px wide. `strength` is that of one photometric change
    of both pieces, which the first image does not get; at 0, as in BLINK, the pieces continue it
    exactly. Raises TaskError.
    """
    return cut_jigsaw(rng, photograph(scene), f"the photograph {scene!r}", letter, strength)


def cut_jigsaw(
    rng: Generator,
    photo: Pixels,
    name: str,
    letter: str,
    strength: float = 0.0,
    whole: bool = False,
) -> QuestionImages:
    """The same from any photograph, HxWx3; `whole` cuts all of it, at its own aspect, instead of a
    random crop."""
    for _ in range(200):
        grid, crop = _cut_grid(rng, photo, whole)
        row, column = OTHERS[int(rng.integers(len(OTHERS)))]
        missing, distractor = grid[1, :, 1], grid[row, :, column]
        difference = np.abs(missing.astype(np.int16) - distractor).mean()
        if min(missing.std(), distractor.std()) >= PLAIN and difference >= ALIKE:
            break
    else:
        raise TaskError(f"{name} has no two pieces that differ{'' if whole else ', in any crop'}")
    light = Light.draw(rng, strength)
    pieces = [light(piece, rng) for piece in (missing, distractor)]
    board = grid[:2, :, :2].copy()
    board[1, :, 1] = 0
    board = board.reshape(2 * grid.shape[1], 2 * PIECE, 3)
    images = (board, *(pieces if letter == "A" else pieces[::-1]))
    meta = {"crop": crop, "distractor": [row, column], **light.settings}
    return QuestionImages(images, meta=meta)


def _cut_grid(rng: Generator, photo: Pixels, whole: bool) -> tuple[Pixels, list[int]]:
    """Pieces (3, height, 3, width, 3) of a crop, and where it was cut out: left, top, right and
    bottom edge."""
    tall, wide = photo.shape[:2]
    left, top, size = 0, 0, (wide, tall)
    height = max(8, round(PIECE * tall / wide))
    if not whole:
        height = int(rng.integers(*HEIGHTS, endpoint=True))
        width = round(min(wide, tall * PIECE // height) * rng.uniform(*WIDTHS))
        size = (width, width * height // PIECE)
        left, top = random_corner(rng, (wide, tall), size)
    crop = cut_window(photo, (left, top), size)
    kind = cv2.INTER_AREA if size[0] > 3 * PIECE else cv2.INTER_CUBIC
    sized = np.asarray(cv2.resize(crop, (3 * PIECE, 3 * height), interpolation=kind), np.uint8)
    return sized.reshape(3, height, 3, PIECE, 3), [left, top, left + size[0], top + size[1]]
