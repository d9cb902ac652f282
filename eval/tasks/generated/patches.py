"""Do You See Me's two studies of size against an encoder's patches: is a square turned, how many rectangles are there?

Appendix O of the paper. It measures sizes against patches of 14 px, so the pictures are 28 of these wide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from looktwice.eval.tasks.generated.canvas import BLACK, XY, extent, fill, paper, turned
from looktwice.eval.tasks.generated.scene import TRIES, Control, Draw, Kind, Scene, no_room
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

PATCH = 14  # pixels
SIDE = 28 * PATCH
MARGIN = 4.0  # pixels between two rectangles, and between one and the rim
PLACES = 200  # that are tried for all rectangles of a picture
SHORTER = 0.8  # of a rectangle's longer edge


def draw_rotation(draw: Draw) -> Scene:
    """Two filled squares beside each other, the right one turned to either side by `rotation` degrees.

    Where they lie within a patch is drawn by lot, alike for both.
    """
    size, turn = float(draw.levels["size"]), float(draw.levels["rotation"]) * draw.pick((-1, 1))
    place = np.array([SIDE / 4, SIDE / 2]) + draw.rng.uniform(0, PATCH, 2) - PATCH / 2
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * size / 2
    left, right = square + place, turned(square, turn) + place + (SIDE / 2, 0)
    truth = {"center": place.round(3).tolist(), "size": size, "turn": turn}
    marks = (Box("left square", *extent(left)), Box("right square", *extent(right)))
    question = "Is the right square rotated with respect to the left one? Answer Yes or No."
    return Scene(question, "Yes" if turn else "No", truth, lambda: _painted([left, right]), marks, _patches(size))


def draw_counting(draw: Draw) -> Scene:
    """Filled upright rectangles of one size, which do not touch, at random places."""
    size = float(draw.levels["size"])
    shape = np.array([size, SHORTER * size])
    crowded = draw.levels["instances"] * np.prod(shape + MARGIN) > (SIDE - MARGIN) ** 2
    for _ in range(0 if crowded else TRIES):
        corners: list[XY] = []
        for _ in range(PLACES):
            corner = draw.rng.uniform(MARGIN, SIDE - MARGIN - shape)
            if len(corners) < draw.levels["instances"] and all(
                (np.abs(corner - other) >= shape + MARGIN).any() for other in corners
            ):
                corners.append(corner)
        if len(corners) == draw.levels["instances"]:
            return _counted(corners, shape, size)
    raise no_room("patch_counting", draw)


def _counted(corners: Sequence[XY], shape: XY, size: float) -> Scene:
    unit = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    outlines = [unit * shape + corner for corner in corners]
    marks = tuple(Box(f"rectangle {number}", *extent(outline)) for number, outline in enumerate(outlines, 1))
    truth = {"corners": [corner.round(3).tolist() for corner in corners], "size": shape.round(3).tolist()}
    question = "How many rectangles are in the image? Answer with a number."
    return Scene(question, str(len(corners)), truth, lambda: _painted(outlines), marks, _patches(size))


def _patches(size: float) -> dict[str, float]:
    return {"patches": round(size / PATCH, 3)}


def _painted(outlines: Sequence[XY]) -> Pixels:
    pixels = paper(SIDE, SIDE)
    for outline in outlines:
        fill(pixels, outline, BLACK)
    return pixels


ROTATION = Kind(
    "patch_rotation",
    "yes_no",
    (
        Control("size", (7, 14, 28, 42, 56, 70), 2, 130),
        Control("rotation", (0, 0, 0, 0, 5, 10, 15, 20), 0, 45),
    ),
    draw_rotation,
    group="App. O",
)
COUNTING = Kind(
    "patch_counting",
    "integer",
    (
        Control("size", (7, 21, 35, 49, 63), 2, 180),
        Control("instances", (2, 3, 4, 5, 6, 7, 8), 1, 60, whole=True),
    ),
    draw_counting,
    group="App. O",
)
