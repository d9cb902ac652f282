"""Generated questions that are easy at sufficient resolution: which letter, or how many shapes, are
somewhere in an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFont

from looktwice.eval.tasks.base import Facts, GeneratedTask, Subset, TaskError
from looktwice.eval.tasks.photographs import deal_evenly, make_rng
from looktwice.pipelines.geometry import PixelRect, grow, overlaps
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

COLORS = {
    "red": (222, 20, 20),
    "orange": (245, 125, 0),
    "green": (30, 150, 55),
    "blue": (20, 55, 215),
    "purple": (150, 20, 190),
}
SHAPES = ("triangles", "squares", "circles")
COLUMN_COUNT, ROW_COUNT = 3, 2  # layout of the shapes of one colour
SHAPE_GAP = 0.6  # between two shapes, as a share of their height
MIN_GAP = 24  # pixels between two objects, and between an object and the border
MAX_TRIES = 500
CAPITAL_HEIGHT = (
    0.7  # height of a capital in ems; the starting point of the search for the right size
)


@dataclass(frozen=True)
class LettersAndShapes(GeneratedTask):
    """`n` generated questions, half of them "Which letter is red?", half "How many of the red
    shapes are triangles?".

    Each image of `width` x `height` pixels shows four objects of different colours on a light
    ground: letters, and sets of six shapes. Letters and shapes are `smallest` to `largest` pixels
    high, distributed evenly on a logarithmic scale. For oracles, the mark `target`, which the
    sample's field `region` names, is the box around the object that the question is about. `leak`
    is the share of questions whose text gives the answer away ("... between J and L in the
    alphabet"), for tests of audits; the sample's truth marks them (`leaky`). Question `i` depends
    only on `seed` and `i`. Scores can be sliced by `kind` and by `size`, the quarter of the range
    of heights (1 is the smallest). Raises TaskError.
    """

    n: int = 60
    seed: int = 0
    width: int = 1200
    height: int = 900
    smallest: int = 9
    largest: int = 60
    leak: float = 0.0
    subset: Subset = Subset()

    def __post_init__(self) -> None:
        if self.n < 1 or not 6 <= self.smallest <= self.largest:
            raise TaskError(
                "`n` must be at least 1, and 6 <= `smallest` <= `largest`, got"
                f" n={self.n}, smallest={self.smallest}, largest={self.largest}"
            )
        if not 0 <= self.leak <= 1:
            raise TaskError(f"`leak` must be a share of the questions in 0..1, got {self.leak}")
        if min(self.width, self.height) < 10 * self.largest:
            raise TaskError(
                f"an image of {self.width} x {self.height} pixels is too small for shapes"
                f" {self.largest} pixels high; make both sides at least {10 * self.largest}"
            )

    @property
    def facts(self) -> Facts:
        """The facts about the task that tables list, such as the split and the label version."""
        return Facts("made", "by construction", note="generated images; tests tools only")

    @cached_property
    def _selected_numbers(self) -> list[int]:
        names = [self._id(number) for number in range(self.n)]
        rows = [(name.partition("_")[2], {"kind": name.partition("_")[0]}) for name in names]
        return self.subset.choose(rows, names=names)

    def _id(self, number: int) -> str:
        return f"{('letter', 'count')[number % 2]}_{number:04}"

    def _item(self, number: int) -> Item:
        rng = make_rng("letters and shapes", self.seed, number)
        kind, turn = ("letter", "count")[number % 2], number // 2
        color = deal_evenly(turn, tuple(COLORS), "color", self.seed)
        rank = deal_evenly(turn, range(8), "size", self.seed)
        span = math.log(self.largest / self.smallest)
        high = round(self.smallest * math.exp(span * (rank + rng.random()) / 8))
        others = rng.permutation([name for name in COLORS if name != color])[:3]
        ground = int(rng.integers(235, 250, 1)[0])
        image = Image.new("RGB", (self.width, self.height), (ground, ground, ground))
        target = _draw_letter(rng) if kind == "letter" else _draw_shapes(rng, turn)
        taken = [_paste(image, rng, target, high, color, [])]
        for tint in others:
            other_high = round(self.smallest * math.exp(span * rng.random()))
            another = _draw_letter(rng) if rng.random() < 0.5 else _draw_shapes(rng)
            taken.append(_paste(image, rng, another, other_high, str(tint), taken))
        answer, question = target[0], f"Which letter is {color}?"
        if kind == "count":
            answer = str(target.count(SHAPES[0]))
            question = f"How many of the {color} shapes are {SHAPES[0]}?"
        leaky = self.leak > 0 and make_rng("leak", self.seed, number).random() < self.leak
        if leaky and kind == "count":
            count = COLUMN_COUNT * ROW_COUNT
            question += f" Of the {count}, {count - int(answer)} are not."
        elif leaky:
            place = ascii_uppercase.index(answer)
            before, after = ascii_uppercase[place - 1], ascii_uppercase[(place + 1) % 26]
            question += f" It stands between {before} and {after} in the alphabet."
        meta = {"kind": kind, "region": "target", "px": high, "size": 1 + rank // 2}
        mark = Box("target", *taken[0])
        picture = Picture(np.asarray(image), f"letters and shapes {number}")
        truth = {"leaky": leaky} if self.leak else {}
        sample = Sample(self._id(number), question, (picture,), (), (mark,), meta)
        return Item(sample, answer, truth)


def _draw_letter(rng: Generator) -> list[str]:
    return [str(rng.choice(list(ascii_uppercase)))]


def _draw_shapes(rng: Generator, turn: int | None = None) -> list[str]:
    """Return six shapes, of which one to five are triangles: a random number, or the number that
    balances the question with the number `turn`."""
    if turn is None:
        triangles = int(rng.integers(1, 6))
    else:
        triangles = deal_evenly(turn, range(1, 6), "triangles")
    others = [str(rng.choice(SHAPES[1:])) for _ in range(COLUMN_COUNT * ROW_COUNT - triangles)]
    return [str(shape) for shape in rng.permutation([SHAPES[0]] * triangles + others)]


def _paste(
    image: Image.Image,
    rng: Generator,
    shapes: Sequence[str],
    high: int,
    color: str,
    taken: Sequence[PixelRect],
) -> PixelRect:
    """Draw an object at a random position with enough room, and return the box around it."""
    shape = _render_letter(shapes[0], high) if len(shapes) == 1 else _render_shapes(shapes, high)
    width, height = shape.size
    for _ in range(MAX_TRIES):
        left = int(rng.integers(MIN_GAP, image.size[0] - width - MIN_GAP))
        top = int(rng.integers(MIN_GAP, image.size[1] - height - MIN_GAP))
        area = left, top, left + width, top + height
        if not any(overlaps(grow(area, MIN_GAP), box) for box in taken):
            image.paste(COLORS[color], area, shape)
            return area
    raise TaskError(
        "there is no room for four objects in the image; make it larger, or lower `largest`"
    )


def _render_letter(letter: str, high: int) -> Image.Image:
    """Render a capital `high` pixels high as the coverage of each pixel, cropped to the letter."""
    size = high / CAPITAL_HEIGHT
    for _ in range(8):
        font = ImageFont.load_default(size)
        image = Image.new("L", (3 * high + 16, 3 * high + 16))
        ImageDraw.Draw(image).text((high, high // 2), letter, fill=255, font=font)
        box = image.getbbox() or (0, 0, 1, 1)
        if box[3] - box[1] == high:
            break
        size *= high / (box[3] - box[1])
    return image.crop(box)


def _render_shapes(shapes: Sequence[str], high: int) -> Image.Image:
    """Render shapes `high` pixels high, in rows, as the coverage of each pixel, by
    supersampling."""
    times, step = 4, round(high * (1 + SHAPE_GAP))
    size = (COLUMN_COUNT - 1) * step + high, (ROW_COUNT - 1) * step + high
    image = Image.new("L", (size[0] * times, size[1] * times))
    draw = ImageDraw.Draw(image)
    for place, shape in enumerate(shapes):
        left, top = (place % COLUMN_COUNT) * step * times, (place // COLUMN_COUNT) * step * times
        right, bottom = left + high * times - 1, top + high * times - 1
        if shape == "triangles":
            draw.polygon([(left, bottom), (right, bottom), ((left + right) / 2, top)], fill=255)
        elif shape == "squares":
            draw.rectangle((left, top, right, bottom), fill=255)
        else:
            draw.ellipse((left, top, right, bottom), fill=255)
    return image.resize(size, Image.Resampling.BOX)
