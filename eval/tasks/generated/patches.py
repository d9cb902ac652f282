"""Do You See Me's two studies that vary the object size relative to the encoder's patch size:
rotation and counting.

Appendix O of the paper, which measures sizes against patches of 14 px, so the pictures are 28 of
these wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from looktwice.eval.tasks.generated.canvas import BLACK, XY, blank, extent, fill, rotate
from looktwice.eval.tasks.generated.scene import (
    Control,
    Scene,
    SceneParameters,
    SceneType,
    number_labels,
)
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

PATCH = 14  # pixels
SIDE = 28 * PATCH
MARGIN = 4.0  # pixels between two rectangles, and between one and the rim
PLACES = 200  # that are tried for all rectangles of a picture
SHORTER = 0.8  # of a rectangle's longer edge
UNIT = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])


def draw_rotation(params: SceneParameters) -> Iterator[Scene]:
    """Two filled squares beside each other, the right one turned to either side by `rotation`
    degrees.

    Their place within a patch is random, and the same for both.
    """
    size = float(params.levels["size"])
    turn = float(params.levels["rotation"]) * params.pick((-1, 1))
    place = np.array([SIDE / 4, SIDE / 2]) + params.rng.uniform(0, PATCH, 2) - PATCH / 2
    square = (2 * UNIT - 1) * size / 2
    outlines = [square + place, rotate(square, turn) + place + (SIDE / 2, 0)]
    truth = {"center": place.round(3).tolist(), "size": size, "turn": turn}
    question = "Is the right square rotated with respect to the left one? Answer Yes or No."
    labels = ("left square", "right square")
    yield _scene(question, "Yes" if turn else "No", truth, outlines, labels, size)


def draw_counting(params: SceneParameters) -> Iterator[Scene | None]:
    """Filled upright rectangles of one size, which do not touch, at random places."""
    size, count = float(params.levels["size"]), params.levels["instances"]
    shape = np.array([size, SHORTER * size])
    while count * np.prod(shape + MARGIN) <= (SIDE - MARGIN) ** 2:
        corners: list[XY] = []
        for _ in range(PLACES):
            corner = params.rng.uniform(MARGIN, SIDE - MARGIN - shape)
            apart = (np.abs(corner - taken) >= shape + MARGIN for taken in corners)
            if len(corners) < count and all(beside.any() for beside in apart):
                corners.append(corner)
        if len(corners) < count:
            yield None
            continue
        places = [corner.round(3).tolist() for corner in corners]
        yield _scene(
            "How many rectangles are in the image? Answer with a number.",
            str(count),
            {"corners": places, "size": shape.round(3).tolist()},
            [UNIT * shape + corner for corner in corners],
            list(number_labels(["rectangle"] * count)),
            size,
            asked="rectangle",
        )


def _scene(
    question: str,
    key: str,
    truth: dict[str, Any],
    outlines: Sequence[XY],
    labels: Sequence[str],
    size: float,
    asked: str = "",
) -> Scene:
    def paint() -> Pixels:
        pixels = blank(SIDE, SIDE)
        for outline in outlines:
            fill(pixels, outline, BLACK)
        return pixels

    named = zip(labels, outlines, strict=True)
    marks = tuple(Box(label, *extent(outline)) for label, outline in named)
    return Scene(question, key, truth, paint, marks, {"patches": round(size / PATCH, 3)}, asked)


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
