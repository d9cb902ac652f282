"""Do You See Me's two studies that vary the object size relative to the encoder's patch size:
rotation and counting.

Appendix O of the paper, which measures sizes against patches of 14 px, so the pictures are 28 of
these wide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from looktwice.eval.tasks.generated.canvas import BLACK, XY, blank, extent, fill, rotate
from looktwice.eval.tasks.generated.scene import (
    TRIES,
    Control,
    Scene,
    SceneParameters,
    SceneType,
    no_room_error,
)
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

PATCH = 14  # pixels
SIDE = 28 * PATCH
MARGIN = 4.0  # pixels between two rectangles, and between one and the rim
PLACES = 200  # that are tried for all rectangles of a picture
SHORTER = 0.8  # of a rectangle's longer edge


def draw_rotation(params: SceneParameters) -> Scene:
    """Two filled squares beside each other, the right one turned to either side by `rotation`
    degrees.

    Their place within a patch is random, and the same for both.
    """
    size, turn = (
        float(params.levels["size"]),
        float(params.levels["rotation"]) * params.pick((-1, 1)),
    )
    place = np.array([SIDE / 4, SIDE / 2]) + params.rng.uniform(0, PATCH, 2) - PATCH / 2
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * size / 2
    left, right = square + place, rotate(square, turn) + place + (SIDE / 2, 0)
    truth = {"center": place.round(3).tolist(), "size": size, "turn": turn}
    marks = (Box("left square", *extent(left)), Box("right square", *extent(right)))
    question = "Is the right square rotated with respect to the left one? Answer Yes or No."
    return Scene(
        question,
        "Yes" if turn else "No",
        truth,
        lambda: _paint([left, right]),
        marks,
        _patches(size),
    )


def draw_counting(params: SceneParameters) -> Scene:
    """Filled upright rectangles of one size, which do not touch, at random places."""
    size = float(params.levels["size"])
    shape = np.array([size, SHORTER * size])
    crowded = params.levels["instances"] * np.prod(shape + MARGIN) > (SIDE - MARGIN) ** 2
    for _ in range(0 if crowded else TRIES):
        corners: list[XY] = []
        for _ in range(PLACES):
            corner = params.rng.uniform(MARGIN, SIDE - MARGIN - shape)
            if len(corners) < params.levels["instances"] and all(
                (np.abs(corner - other) >= shape + MARGIN).any() for other in corners
            ):
                corners.append(corner)
        if len(corners) == params.levels["instances"]:
            return _counting_scene(corners, shape, size)
    raise no_room_error("patch_counting", params)


def _counting_scene(corners: Sequence[XY], shape: XY, size: float) -> Scene:
    unit = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    outlines = [unit * shape + corner for corner in corners]
    marks = tuple(
        Box(f"rectangle {number}", *extent(outline)) for number, outline in enumerate(outlines, 1)
    )
    truth = {
        "corners": [corner.round(3).tolist() for corner in corners],
        "size": shape.round(3).tolist(),
    }
    question = "How many rectangles are in the image? Answer with a number."
    return Scene(
        question,
        str(len(corners)),
        truth,
        lambda: _paint(outlines),
        marks,
        _patches(size),
        "rectangle",
    )


def _patches(size: float) -> dict[str, float]:
    return {"patches": round(size / PATCH, 3)}


def _paint(outlines: Sequence[XY]) -> Pixels:
    pixels = blank(SIDE, SIDE)
    for outline in outlines:
        fill(pixels, outline, BLACK)
    return pixels


ROTATION = SceneType(
    "patch_rotation",
    "yes_no",
    (
        Control("size", (7, 14, 28, 42, 56, 70), 2, 130),
        Control("rotation", (0, 0, 0, 0, 5, 10, 15, 20), 0, 45),
    ),
    draw_rotation,
    group="App. O",
)
COUNTING = SceneType(
    "patch_counting",
    "integer",
    (
        Control("size", (7, 21, 35, 49, 63), 2, 180),
        Control("instances", (2, 3, 4, 5, 6, 7, 8), 1, 60, whole=True),
    ),
    draw_counting,
    group="App. O",
)
