"""The scenes that Pocket is trained on: the kinds of `MarkedScenes`, on other photographs and in
training styles.

`HELD_OUT` lists the styles that are never drawn here, so that fragility can be measured on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.marked_scenes.kinds import (
    KINDS,
    MarkedSceneParameters,
    Question,
    ask_attribute,
    ask_cell,
    ask_count,
    ask_higher,
    ask_larger,
    ask_present,
    ask_where,
)
from looktwice.eval.tasks.marked_scenes.scene import (
    COLORS,
    SHAPES,
    SYMBOLS,
    Style,
    Thing,
    draw_things,
)
from looktwice.eval.tasks.marked_scenes.task import TRAINING_PHOTOS
from looktwice.eval.tasks.photographs import make_rng
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.models.pocket.network import PLACE_SIDE, PLACES_PER_SIDE, fit_pixels
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.grids import RuledGrid
from looktwice.prompting.markers import Circles, Dots, Label, Rectangles
from looktwice.prompting.views import Encode, ZoomOnMarks
from looktwice.prompting.views.crop import Crop

HELD_OUT = {
    "colors of marks": ("magenta", "cyan"),
    "shapes of marks": ("Crosshairs", "Arrows", "Spotlight", "Contours"),
    "radius": "below 12 and above 44 pixels of an image of 320",
}
MARK_COLORS = ("red", "red", "lime", "blue", "yellow", "white", "black")
KIND_SHARES = {
    "shape": 4,
    "color": 3,
    "symbol": 4,
    "larger": 3,
    "higher": 2,
    "count": 3,
    "cell": 2,
    "present": 2,
    "where": 2,
}
NO_MODEL = NoModel("training asks no model")
OUT_OF_SCENE = 0
SIZES = 12
# pixels of the network's input: the smallest size class, and the ratio between classes
SMALLEST, FACTOR = (5.0, 1.25)
Grid = NDArray[np.uint8]
"""CELLS x CELLS x 6: shape, colour, symbol, mark and size of the thing at each place, and whether
its middle is there.

Classes count from 1; 0 means no class.
"""


@dataclass(frozen=True, eq=False)
class Example:
    """A scene as the network sees it: the input pixels and grid of every view, and possible
    questions."""

    inputs: tuple[Pixels, ...]
    grids: tuple[Grid, ...]
    things: tuple[Thing, ...]
    marked: tuple[int, ...]
    kind: str
    whole: bool
    question: Question


def make_example(seed: int, number: int) -> Example:
    """Make scene `number` of the training with this seed."""
    rng = make_rng("pocket", seed, number)
    while True:
        try:
            return _draw_example(rng, number)
        except (TaskError, ValueError):
            continue  # there is no room for a thing or a label: draw another scene


def _draw_example(rng: Generator, number: int) -> Example:
    names = [name for name, share in KIND_SHARES.items() for _ in range(share)]
    kind = names[int(rng.integers(len(names)))]
    style = Style(photos=TRAINING_PHOTOS)
    levels = {
        "size": float(np.exp(rng.uniform(np.log(13), np.log(66)))),
        "things": int(rng.integers(2, 12)),
        "ratio": float(rng.uniform(1.15, 2.3)),
        "drop": float(rng.uniform(14, 150)),
        "overlap": float(rng.choice([0.0, 0.0, 0.2, 0.4])),
    }
    asked = KINDS[kind].make(
        MarkedSceneParameters(
            rng, levels, lambda cards: cards[int(rng.integers(len(cards)))], style=style
        )
    )
    marked = [asked.things.index(thing) for thing in asked.marked_things]
    if not marked and rng.random() < 0.3:
        marked = [int(rng.integers(len(asked.things)))]
    pixels = draw_things(rng, asked.things, style)
    state, whole = _prepare(rng, pixels, [asked.things[n] for n in marked], kind)
    inputs, grids = [], []
    for view in state.views:
        fitted, scale, corner = fit_pixels(view.pixels)
        inputs.append(fitted)
        grids.append(_grid(view, scale, corner, asked.things, marked))
    return Example(
        tuple(inputs), tuple(grids), asked.things, tuple(marked), kind, whole, asked.question
    )


def _prepare(
    rng: Generator, pixels: Pixels, marked: Sequence[Thing], kind: str
) -> tuple[State, bool]:
    """Return the views of a scene with marks drawn, zoomed or with a grid, and whether the whole
    image is the first view."""
    boxes = rng.random() < 0.35
    marks: tuple[Mark, ...] = tuple(
        Box(label, *thing.box) if boxes else Point(label, thing.x - 0.5, thing.y - 0.5)
        for label, thing in zip("AB", marked, strict=False)
    )
    stages: list[Stage] = []
    whole = True
    if marks:
        stages.append(_marker(rng, boxes, len(marks)))
        if rng.random() < (0.35 if len(marks) == 1 else 0.15):
            show: Literal["both", "crop"] = (
                "both" if rng.random() < 0.5 or len(marks) == 2 else "crop"
            )
            crop = Crop(
                padding=float(rng.uniform(0.15, 0.6)),
                min_px=float(rng.uniform(44, 120)),
                show=show,
                merge="union",
                outline="red",
                thickness=int(rng.choice([0, 2, 3])),
                upscale=256,
            )
            stages.insert(int(rng.integers(2)), ZoomOnMarks(crop=crop))
            whole = show == "both"
    elif rng.random() < (0.4 if kind in ("cell", "where") else 0.08):
        stages.append(
            RuledGrid(3, 3, names="none", color=str(rng.choice(["contrast", "red", "white"])))
        )
    if rng.random() < 0.25:
        stages.append(Encode("jpeg", int(rng.integers(15, 95))))
    state = State.start(Sample("training", "", (Picture(pixels, "training"),), marks=marks))
    for stage in stages:
        state = stage(state, NO_MODEL)
    return state, whole


def _marker(rng: Generator, boxes: bool, count: int) -> Stage:
    color = str(rng.choice(MARK_COLORS))
    label = Label(
        font_size=float(rng.uniform(18, 34)),
        plate=str(rng.choice(["black", "mark", "none"])),
        color="contrast",
    )
    if count == 1 and rng.random() < 0.5:
        label = Label(placement="none")
    thickness = float(rng.uniform(2, 5))
    if boxes:
        return Rectangles(color=color, thickness=thickness, label=label)
    if rng.random() < 0.12:
        return Dots(radius=float(rng.uniform(3, 6)), color=color, label=label)
    return Circles(radius=float(rng.uniform(12, 44)), thickness=thickness, color=color, label=label)


def _grid(
    view: View,
    scale: float,
    corner: tuple[int, int],
    things: Sequence[Thing],
    marked: Sequence[int],
) -> Grid:
    """Return the content of each place: of the things whose middle half covers the place, the one
    drawn last."""
    grid = np.zeros((PLACES_PER_SIDE, PLACES_PER_SIDE, 6), np.uint8)
    affine = view.parts[0].affine
    places = (np.arange(PLACES_PER_SIDE) + 0.5) * PLACE_SIDE
    for number, thing in enumerate(things):
        x, y = (float(v) for v in affine((thing.x - 0.5, thing.y - 0.5)))
        far = float(affine((thing.x + thing.size / 4 - 0.5, thing.y - 0.5))[0])
        x, y, reach = (
            (x + 0.5) * scale + corner[0],
            (y + 0.5) * scale + corner[1],
            max(PLACE_SIDE / 2, (far - x) * scale),
        )
        there = (np.abs(places - y) <= reach)[:, None] & (np.abs(places - x) <= reach)[None]
        height = 4 * (far * scale + corner[0] + 0.5 * scale - x)
        size = 1 + min(SIZES - 1, max(0, int(np.log(height / SMALLEST) / np.log(FACTOR))))
        grid[there] = *_classes(thing, number, marked), size, 0
        row, column = int(y // PLACE_SIDE), int(x // PLACE_SIDE)
        if 0 <= row < PLACES_PER_SIDE and 0 <= column < PLACES_PER_SIDE:
            grid[row, column, 5] = 1
    return grid


def _classes(thing: Thing, number: int, marked: Sequence[int]) -> tuple[int, int, int, int]:
    shape = len(SHAPES) + 1 if thing.symbol else SHAPES.index(thing.shape) + 1
    symbol = SYMBOLS.index(thing.symbol) + 1 if thing.symbol else 0
    mark = 0 if number not in marked else 1 if len(marked) == 1 else 2 + list(marked).index(number)
    return shape, list(COLORS).index(thing.color) + 1, symbol, mark


def more_questions(
    rng: Generator, example: Example, count: int, choices: bool, counting: int = 3, side: int = 320
) -> list[Question]:
    """Return the scene's own question, if it can be asked in this form, and further questions about
    the same views, with or without `choices`.

    Without choices, `counting` of `counting` + 2 questions ask for a number, if no thing is marked.
    """
    things, marked = example.things, [example.things[n] for n in example.marked]
    own = bool(example.question.choices) == choices and (example.whole or len(marked) == 1)
    found = [example.question] if own else []
    names = ["attribute"] * 3 * (len(marked) == 1) + ["pair"] * 3 * (len(marked) == 2)
    names += (
        ["cell"] * 3 + ["present"] if choices else ["cell", *["count"] * counting, "where"]
    ) * example.whole
    names_there = Counter(thing.name for thing in things)
    unique = [thing for thing in things if names_there[thing.name] == 1]
    while len(found) < count:
        name, at = names[int(rng.integers(len(names)))], int(rng.integers(4))
        if name == "attribute":
            found.append(_about_mark(rng, things, marked[0], at))
        elif name == "pair":
            found.append((ask_larger, ask_higher)[int(rng.integers(2))](marked[0], marked[1]))
        elif name == "count":
            found.append(_count(rng, things))
        elif unique:
            found.append(
                _about_named(rng, name, things, unique[int(rng.integers(len(unique)))], at, side)
            )
        elif not marked:
            found.append(_count(rng, things))
    return found


def _about_mark(rng: Generator, things: Sequence[Thing], thing: Thing, at: int) -> Question:
    names = ["color", "symbol" if thing.symbol else "shape"]
    return ask_attribute(rng, names[int(rng.integers(2))], thing, things, at)


def _about_named(
    rng: Generator, name: str, things: Sequence[Thing], thing: Thing, at: int, side: int
) -> Question:
    if name == "cell":
        return ask_cell(rng, thing, things, side, at)
    if name == "where":
        return ask_where(thing, side)
    absent = {f"{color} {shape}" for color, shape in product(COLORS, SHAPES)} - {
        other.name for other in things
    }
    return ask_present(rng, thing, sorted(absent), at)


def _count(rng: Generator, things: Sequence[Thing]) -> Question:
    """Ask for the number of things with one name, colour or shape; half the time, draw three such
    questions and take the one with the largest number."""
    found = [_count_one(rng, things) for _ in range(3 if rng.random() < 0.5 else 1)]
    return max(found, key=lambda question: int(question.answer))


def _count_one(rng: Generator, things: Sequence[Thing]) -> Question:
    there = things[int(rng.integers(len(things)))]
    color = there.color if rng.random() < 0.8 else str(rng.choice(list(COLORS)))
    shape = there.shape if rng.random() < 0.8 else str(rng.choice(SHAPES))
    by = rng.integers(3)
    return ask_count(things, "" if by == 1 else color, "" if by == 0 else shape)
