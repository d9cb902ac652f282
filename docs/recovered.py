"""A sheet of real BLINK markers before, erased, and drawn anew:
`python docs/recovered.py data/blink OUT.png [TASK]`.

The images are the user's own copy of the benchmark, so the sheet is made from a folder and kept in
none of ours.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from looktwice.eval.tasks import Blink
from looktwice.extras.burnt_in import EraseMarks, RecoverMarks
from looktwice.extras.toolkits.styles import BlinkReleasedStyle
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.state import State

AROUND = 45  # pixels on each side of a point
SCALE = 3
COLUMNS = 4
STAGES = (RecoverMarks(), EraseMarks(), BlinkReleasedStyle())


def around(state: State, point: Point) -> Pixels:
    """The surroundings of a point, enlarged."""
    padded = np.pad(state.views[point.image].pixels, ((AROUND, AROUND), (AROUND, AROUND), (0, 0)))
    x, y = round(point.x), round(point.y)
    window = padded[y : y + 2 * AROUND, x : x + 2 * AROUND]
    return np.asarray(
        cv2.resize(window, None, fx=SCALE, fy=SCALE, interpolation=cv2.INTER_NEAREST), np.uint8
    )


def sheet(folder: Path, task: str, most: int = 24) -> Pixels:
    """Rows of before, erased and redrawn, for every marker of the first samples."""
    triples: list[Pixels] = []
    for item in islice(Blink(folder, task), most):
        state, states = State.start(item.sample), []
        for stage in STAGES:
            state = stage(state, NoModel())
            states.append(state)
        points = [mark for mark in state.sample.marks if isinstance(mark, Point)]
        triples += [np.hstack([*(around(shown, point) for shown in states)]) for point in points]
    framed = [np.pad(triple, ((4, 4), (4, 4), (0, 0)), constant_values=255) for triple in triples]
    framed += [np.full_like(framed[0], 255)] * (-len(framed) % COLUMNS)
    return np.vstack(
        [np.hstack(framed[start : start + COLUMNS]) for start in range(0, len(framed), COLUMNS)]
    )


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    Image.fromarray(
        sheet(Path(sys.argv[1]), sys.argv[3] if len(sys.argv) == 4 else "Relative_Depth")
    ).save(sys.argv[2])
