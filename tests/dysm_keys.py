"""Recomputes the published answer keys of Do You See Me from the dumps published with them."""

import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["color_rows", "shape_rows", "sidecar_answer", "spatial_answer"]

Grid = Mapping[tuple[int, int], tuple[str, str]]
"""(row, column) from 0 -> (shape, fill)."""
STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
_SPATIAL = re.compile(
    r"In grid (\d+), starting from the (\w+) (\w+) at position \(row (\d+), column (\d+)\), how"
    r" many (.+?) are there "
    r"(left|right|up|down) of it in the same (row|column)\?"
)


def shape_rows(
    dump: Sequence[tuple[str, Mapping[str, int]]], seed: int = 0
) -> list[tuple[str, str, int]]:
    """Return (file name, requested shape, answer) for each image, drawn as the authors drew it."""
    rng = random.Random(seed)
    rows = []
    for filename, counts in dump:
        ((shape, count),) = rng.sample(list(counts.items()), 1)
        rows.append((filename, shape, count))
    return rows


def color_rows(
    dump: Sequence[tuple[str, Mapping[tuple[str, str], int]]], seed: int = 0
) -> list[tuple[str, str, str, int]]:
    """Return (file name, shape, colour, answer) for half of the pairs of each image, rounded up."""
    rng = random.Random(seed)
    rows = []
    for filename, counts in dump:
        drawn = rng.sample(list(counts.items()), math.ceil(len(counts) / 2))
        rows += [(filename, shape, color, count) for (shape, color), count in drawn]
    return rows


def spatial_answer(question: str, grids: Sequence[Grid]) -> int:
    """Count the objects that a question asks for in the true grids. Raises ValueError for an
    unknown question.

    Questions number grids, rows and columns from 1; down is towards larger rows.
    """
    said = _SPATIAL.fullmatch(question.strip())
    if said is None:
        raise ValueError(f"not a question of this subtask: {question!r}")
    number, fill, shape, row, column, target, direction, _ = said.groups()
    grid = grids[int(number) - 1]
    place = int(row) - 1, int(column) - 1
    if grid.get(place) != (shape, fill):
        raise ValueError(f"at {place} is {grid.get(place)}, and not a {fill} {shape}")
    step, count = STEPS[direction], 0
    while (place := (place[0] + step[0], place[1] + step[1])) in grid:
        count += _is_target(grid[place], target)
    return count


def _is_target(found: tuple[str, str], target: str) -> bool:
    """Return whether an object matches `target`: "black objects", "circles" or "black circles"."""
    words: list[Any] = target.split()
    fill = words[0] if len(words) == 2 else None
    shape = None if words[-1] == "objects" else words[-1].removesuffix("s")
    return fill in (None, found[1]) and shape in (None, found[0])


QUESTIONS_3D = {
    "shape_discrimination": r"In the scene, how many (\w+)'s are there in total\?",
    "joint_shape_color": r"In the scene, how many (\w+) (\w+)'s are there\?",
    "letter_disambiguation": r"In the scene, which letters do you see from left to right\?",
    "form_constancy": r"Do the shapes on the left and right have the same orientation\?",
    "visual_spatial": (
        r"In grid (\d+), starting from the (\w+) at position \(row (\d+), column (\d+)\), how many"
        r" (\w+)s are there (to the right of|to the left of|ahead|behind|in front of) it in"
        r" the same (?:row|column)\?(.*)"
    ),
}
"""The authors' wordings; our questions on grids also state from where rows and columns are
counted."""


def sidecar_answer(name: str, question: str, sidecar: Mapping[str, Any]) -> str:
    """Return the answer to a 3D question from the JSON file of its picture. Raises ValueError for
    an unknown question.

    In grids, `ahead` and our `behind` are towards larger rows, and right is towards larger columns.
    """
    match = re.fullmatch(QUESTIONS_3D[name], question.strip())
    if match is None:
        raise ValueError(f"not a question of this subtask: {question!r}")
    if name == "shape_discrimination":
        return str(sidecar["shape_counts"].get(match[1], 0))
    if name == "joint_shape_color":
        return str(sidecar["shape_color_counts"].get(f"('{match[2]}', '{match[1]}')", 0))
    if name == "letter_disambiguation":
        return "".join(sidecar["letters"])
    if name == "form_constancy":
        return "Yes" if sidecar["same_orientation"] else "No"
    grid, shape, row, column, target, way, note = match.groups()
    first = 1 if note else 0
    farther = "behind" if note else "ahead"
    down = {"to the right of": 0, "to the left of": 0, farther: 1}.get(way, -1)
    right = {"to the right of": 1, "to the left of": -1}.get(way, 0)
    place, count = (int(row) - first, int(column) - first), 0
    if sidecar[f"grid_{grid}_{place[0]}_{place[1]}"] != shape:
        raise ValueError(f"at {place} is no {shape}")
    while True:
        place = place[0] + down, place[1] + right
        here = sidecar.get(f"grid_{grid}_{place[0]}_{place[1]}")
        if here is None:
            return str(count)
        count += here == target.removesuffix("e" * target.startswith("toruse"))
