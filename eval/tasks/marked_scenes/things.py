"""The things that made scenes are composed of, coloured shapes and lettered tiles, and how they are
drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.eval.tasks.generated.canvas import (
    XY,
    circle,
    regular_polygon,
    rounded_square,
    star,
    translate,
)
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
"""What a tile may say; none of them is easily taken for another one at a legible size."""


def _cross() -> XY:
    arm = 0.36
    corners = [(arm, 1), (arm, arm), (1, arm), (1, -arm), (arm, -arm), (arm, -1)]
    right = np.array(corners)
    return np.concatenate([right, -right])


def _heart() -> XY:
    turn = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    x = 16 * np.sin(turn) ** 3
    y = 13 * np.cos(turn) - 5 * np.cos(2 * turn) - 2 * np.cos(3 * turn) - np.cos(4 * turn)
    return np.stack([x / 16.5, -(y + 2.5) / 14.5], axis=1)


def _crescent() -> XY:
    outer = np.radians(np.linspace(50, 310, 30))
    inner = np.radians(np.linspace(305, 55, 30))
    near = np.stack([np.cos(outer), np.sin(outer)], axis=1)
    far = np.stack([0.42 + 0.8 * np.cos(inner), 0.8 * np.sin(inner)], axis=1)
    return translate(np.concatenate([near, far]), 0.15, 0.0)


OUTLINES: dict[str, XY] = {
    "circle": circle(1.0),
    "square": np.array([[-0.86, -0.86], [0.86, -0.86], [0.86, 0.86], [-0.86, 0.86]]),
    "triangle": translate(regular_polygon(3, 1.1), 0.0, 0.22),
    "star": star(5, 1.08, 0.46),
    "cross": _cross(),
    "diamond": np.array([[0.0, -1.1], [0.72, 0.0], [0.0, 1.1], [-0.72, 0.0]]),
    "heart": _heart(),
    "crescent": _crescent(),
}
"""Each shape around the origin, about one unit from there to its rim."""
SHAPES = tuple(OUTLINES)
TILE = rounded_square(-0.9, -0.9, 1.8, 0.35)
SHIFT = 4  # bits of a pixel's fraction in OpenCV's corners
RIM = 0.06  # of a thing's height is its outline


@dataclass(frozen=True)
class Thing:
    """A shape or, with a `symbol`, a lettered tile; `x` and `y` are its middle, in edges, `size`
    its height in pixels.

    `tilt` turns it clockwise, in degrees; the symbol of a tile stands upright.
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
        """In words: "red star", "blue tile"."""
        return f"{self.color} {self.shape}"

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The upright square around it, in edges."""
        half = self.size / 2
        return self.x - half, self.y - half, self.x + half, self.y + half

    def draw(self, pixels: Pixels) -> None:
        """Draw on HxWx3 RGB pixels."""
        turn = math.radians(self.tilt)
        turned = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
        outline = TILE if self.symbol else OUTLINES[self.shape]
        corners = outline @ turned * (self.size / 2) + (self.x - 0.5, self.y - 0.5)
        whole = [np.rint(corners * 2**SHIFT).astype(np.int32)]
        rim = max(1, round(RIM * self.size))
        dark = sum(COLORS[self.color]) > 120
        cv2.fillPoly(pixels, whole, COLORS[self.color], cv2.LINE_AA, SHIFT)
        cv2.polylines(
            pixels, whole, True, (30, 30, 30) if dark else (225, 225, 225), rim, cv2.LINE_AA, SHIFT
        )
        if self.symbol:
            self._write(pixels)

    def _write(self, pixels: Pixels) -> None:
        ink = _symbol(self.symbol, round(0.56 * self.size))
        height, width = ink.shape[:2]
        left, top = round(self.x - width / 2), round(self.y - height / 2)
        there = pixels[top : top + height, left : left + width]
        bright = sum(COLORS[self.color]) > 330
        there[:] = np.rint(there * (1 - ink) + (0 if bright else 255) * ink)


@lru_cache(maxsize=2048)
def _symbol(symbol: str, height: int) -> NDArray[np.float32]:
    """How much of each pixel a capital of this height covers, HxWx1."""
    ink = render_text(symbol, max(6.0, height / 0.7))
    return np.asarray(ink[..., None] / np.float32(255), np.float32)
