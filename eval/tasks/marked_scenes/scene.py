"""Drawn scenes: coloured shapes and lettered tiles on a plain or photographed background, with
limited overlap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.outlines import (
    XY,
    compute_circle_points,
    make_circle,
    make_regular_polygon,
    make_rounded_square,
    make_star,
    rotate,
    translate,
)
from looktwice.eval.tasks.photographs import cut_window, draw_corner, load_photograph
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB
from looktwice.prompting.drawing.text import render_text

COLORS: dict[str, RGB] = {
    "red": (214, 35, 35),
    "green": (40, 160, 60),
    "blue": (35, 80, 215),
    "yellow": (245, 215, 45),
    "purple": (140, 45, 180),
    "orange": (245, 130, 20),
    "white": (245, 245, 245),
    "black": (25, 25, 25),
}
SYMBOLS = tuple("ACEFHKLPTXYZ2457")
"""Symbols for tiles; at a legible size they are hard to confuse."""


_CROSS_ARM = np.array([(0.36, 1), (0.36, 0.36), (1, 0.36), (1, -0.36), (0.36, -0.36), (0.36, -1)])
_FULL_TURN = np.linspace(0, 2 * np.pi, 40, endpoint=False)
_HEART_HEIGHT = sum(
    part * np.cos(n * _FULL_TURN) for n, part in ((1, 13), (2, -5), (3, -2), (4, -1))
)
_OUTER_ANGLES, _INNER_ANGLES = (
    np.radians(np.linspace(50, 310, 30)),
    np.radians(np.linspace(305, 55, 30)),
)
_CRESCENT = np.concatenate(
    [compute_circle_points(_OUTER_ANGLES), 0.8 * compute_circle_points(_INNER_ANGLES) + (0.42, 0)]
)
OUTLINES: dict[str, XY] = {
    "circle": make_circle(1.0),
    "square": np.array([[-0.86, -0.86], [0.86, -0.86], [0.86, 0.86], [-0.86, 0.86]]),
    "triangle": translate(make_regular_polygon(3, 1.1), 0.0, 0.22),
    "star": make_star(5, 1.08, 0.46),
    "cross": np.concatenate([_CROSS_ARM, -_CROSS_ARM]),
    "diamond": np.array([[0.0, -1.1], [0.72, 0.0], [0.0, 1.1], [-0.72, 0.0]]),
    "heart": np.stack([16 * np.sin(_FULL_TURN) ** 3 / 16.5, -(_HEART_HEIGHT + 2.5) / 14.5], axis=1),
    "crescent": translate(_CRESCENT, 0.15, 0.0),
}
"""The corners of each shape, centred on the origin; the rim is about one unit away from it."""
SHAPES = tuple(OUTLINES)
TILE_OUTLINE = make_rounded_square(-0.9, -0.9, 1.8, 0.35)
FRACTION_BITS = 4  # bits of a pixel's fraction in OpenCV's corners
OUTLINE_SHARE = 0.06  # width of the outline as a share of the thing's height


@dataclass(frozen=True)
class Thing:
    """A shape or, with a `symbol`, a lettered tile; `x` and `y` are its centre in edge coordinates,
    `size` its height in pixels.

    `tilt` turns it clockwise, in degrees; the symbol of a tile stays upright.
    """

    shape: str
    color: str
    x: float
    y: float
    size: float
    tilt: float = 0.0
    symbol: str = ""

    @property
    def name(self) -> str:
        """The colour and shape in words: "red star", "blue tile"."""
        return f"{self.color} {self.shape}"

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The upright square around the object, in edge coordinates."""
        half = self.size / 2
        return self.x - half, self.y - half, self.x + half, self.y + half

    def to_dict(self) -> dict[str, Any]:
        """Return the object as it is stored in an item's truth."""
        box = [round(edge, 2) for edge in self.box]
        return {"name": self.name, "symbol": self.symbol, "box": box}

    def draw(self, pixels: Pixels) -> None:
        """Draw the object on HxWx3 RGB pixels."""
        outline = TILE_OUTLINE if self.symbol else OUTLINES[self.shape]
        corners = rotate(outline, self.tilt) * (self.size / 2) + (self.x - 0.5, self.y - 0.5)
        whole = [np.rint(corners * 2**FRACTION_BITS).astype(np.int32)]
        rim = max(1, round(OUTLINE_SHARE * self.size))
        dark = sum(COLORS[self.color]) > 120
        cv2.fillPoly(pixels, whole, COLORS[self.color], cv2.LINE_AA, FRACTION_BITS)
        cv2.polylines(
            pixels,
            whole,
            True,
            (30, 30, 30) if dark else (225, 225, 225),
            rim,
            cv2.LINE_AA,
            FRACTION_BITS,
        )
        if self.symbol:
            ink = _render_symbol(self.symbol, round(0.56 * self.size))
            height, width = ink.shape[:2]
            left, top = round(self.x - width / 2), round(self.y - height / 2)
            there = pixels[top : top + height, left : left + width]
            bright = sum(COLORS[self.color]) > 330
            there[:] = np.rint(there * (1 - ink) + (0 if bright else 255) * ink)

    def is_apart(self, others: Things) -> bool:
        """Return whether the outline keeps a distance from the other objects and no boxes overlap,
        so that no point lies in two boxes."""
        for neighbour in others:
            across, down = abs(self.x - neighbour.x), abs(self.y - neighbour.y)
            sizes = self.size + neighbour.size
            if math.hypot(across, down) < 0.62 * sizes or max(across, down) < sizes / 2:
                return False
        return True


Things = Sequence[Thing]


@lru_cache(maxsize=2048)
def _render_symbol(symbol: str, height: int) -> NDArray[np.float32]:
    """Render a symbol with capitals of this height; return the coverage of each pixel, HxWx1 in
    0..1."""
    ink = render_text(symbol, max(6.0, height / 0.7))
    return np.asarray(ink[..., None] / np.float32(255), np.float32)


Ground = Literal["plain", "photo", "both"]
PLACEMENT_TRIES = 200  # attempts to place a thing
MIN_BORDER_DISTANCE = 4.0  # pixels between a thing and the rim of the image


@dataclass(frozen=True)
class Style:
    """The look of scenes: `side` is their width and height in pixels, `ground` their background,
    cut from `photos` unless it is plain."""

    side: int = 320
    ground: Ground = "both"
    photos: tuple[str, ...] = ()


def draw_things(rng: Generator, things: Things, style: Style) -> Pixels:
    """Draw the objects on a random background, later ones over earlier ones; return HxWx3 RGB
    uint8."""
    pixels = draw_ground(rng, style)
    for thing in things:
        thing.draw(pixels)
    return pixels


def draw_ground(rng: Generator, style: Style) -> Pixels:
    """Draw a grey or tinted surface, or part of a photograph with reduced contrast."""
    shape = style.side, style.side
    if style.ground == "plain" or (style.ground == "both" and rng.random() < 0.5):
        tint = rng.uniform(90, 215) + rng.uniform(-18, 18, 3)
        return np.broadcast_to(np.clip(tint, 0, 255).astype(np.uint8), (*shape, 3)).copy()
    pixels = load_photograph(str(rng.choice(list(style.photos))))
    side = min(*pixels.shape[:2], int(style.side * rng.uniform(0.9, 1.6)))
    part = cut_window(
        pixels, draw_corner(rng, (pixels.shape[1], pixels.shape[0]), (side, side)), (side, side)
    )
    sized = np.asarray(cv2.resize(part, shape, interpolation=cv2.INTER_AREA), np.float32)
    faded = 128 + (sized - sized.mean() * 0.5 - 64) * rng.uniform(0.35, 0.7)
    return np.asarray(np.clip(np.rint(faded), 0, 255), np.uint8)


def draw_random_thing(rng: Generator, size: float, lettered: bool = False) -> Thing:
    """Return an object of a random colour, without a position yet."""
    color, tilt = str(rng.choice(list(COLORS))), float(rng.uniform(-12, 12))
    if lettered:
        return Thing("tile", color, 0, 0, size, tilt, str(rng.choice(SYMBOLS)))
    return Thing(str(rng.choice(SHAPES)), color, 0, 0, size, tilt)


def place_thing(
    rng: Generator,
    thing: Thing,
    others: Things,
    style: Style,
    fits: Callable[[Thing], bool] = lambda thing: True,
    over: Thing | None = None,
    overlap: float = 0,
) -> Thing:
    """Place an object at a position where it `fits`, apart from all others. Raises TaskError if
    there is no room.

    If `over` is an object, the new object covers it by the share `overlap`: at 0 the two touch, as
    circles would, and at 1 their centres coincide.
    """
    low = thing.size * 0.6 + MIN_BORDER_DISTANCE
    high = style.side - low
    for _ in range(PLACEMENT_TRIES):
        if over is None:
            x, y = (float(v) for v in rng.uniform(low, high, 2))
        else:
            far = (1 - overlap) * (thing.size + over.size) / 2
            turn = float(rng.uniform(0, 2 * math.pi))
            x, y = over.x + far * math.cos(turn), over.y + far * math.sin(turn)
        placed = replace(thing, x=x, y=y)
        inside = low <= min(x, y) and max(x, y) <= high
        if inside and placed.is_apart(others) and fits(placed):
            return placed
    raise make_no_room_error(style, len(others) + 1)


def make_no_room_error(style: Style, count: int) -> TaskError:
    """Return the error to raise if so many objects do not fit."""
    return TaskError(
        f"an image of {style.side} pixels has no room for {count} objects; ask for fewer"
    )
