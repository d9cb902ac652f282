"""A scene: a ground, plain or photographed, and things on it that overlap no more than they may."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import cv2
import numpy as np
from numpy.random import Generator

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.marked_scenes.things import COLORS, SHAPES, SYMBOLS, Thing
from looktwice.eval.tasks.photographs import cut_window, photograph, random_corner
from looktwice.pipelines.picture import Pixels

Ground = Literal["plain", "photo", "both"]
PLACES = 200  # that are tried for a thing
RIM = 4.0  # pixels between a thing and the rim of the image


@dataclass(frozen=True)
class Style:
    """How scenes look: `side` pixels square, on `ground`, of which `photos` are cut."""

    side: int = 320
    ground: Ground = "both"
    photos: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scene:
    """Things in the order in which they are drawn, on a ground."""

    ground: Pixels
    things: tuple[Thing, ...]

    def draw(self) -> Pixels:
        """HxWx3 RGB uint8."""
        pixels = self.ground.copy()
        for thing in self.things:
            thing.draw(pixels)
        return pixels


def draw_ground(rng: Generator, style: Style) -> Pixels:
    """A grey or tinted surface, or a part of a photograph with less contrast than it has."""
    shape = style.side, style.side
    if style.ground == "plain" or (style.ground == "both" and rng.random() < 0.5):
        tint = rng.uniform(90, 215) + rng.uniform(-18, 18, 3)
        return np.broadcast_to(np.clip(tint, 0, 255).astype(np.uint8), (*shape, 3)).copy()
    pixels = photograph(str(rng.choice(list(style.photos))))
    side = min(*pixels.shape[:2], int(style.side * rng.uniform(0.9, 1.6)))
    part = cut_window(
        pixels, random_corner(rng, (pixels.shape[1], pixels.shape[0]), (side, side)), (side, side)
    )
    sized = np.asarray(cv2.resize(part, shape, interpolation=cv2.INTER_AREA), np.float32)
    faded = 128 + (sized - sized.mean() * 0.5 - 64) * rng.uniform(0.35, 0.7)
    return np.asarray(np.clip(np.rint(faded), 0, 255), np.uint8)


def random_thing(rng: Generator, size: float, lettered: bool = False) -> Thing:
    """A thing of any colour, at no place yet."""
    color, tilt = str(rng.choice(list(COLORS))), float(rng.uniform(-12, 12))
    if lettered:
        return Thing("tile", color, 0, 0, size, tilt, str(rng.choice(SYMBOLS)))
    return Thing(str(rng.choice(SHAPES)), color, 0, 0, size, tilt)


def place(
    rng: Generator,
    thing: Thing,
    others: Sequence[Thing],
    style: Style,
    fits: Callable[[Thing], bool] = lambda thing: True,
) -> Thing:
    """The thing at a place apart from all others where it `fits`. Raises TaskError where there is
    none."""
    low = thing.size * 0.6 + RIM
    for _ in range(PLACES):
        x, y = (float(v) for v in rng.uniform(low, style.side - low, 2))
        if _is_free(x, y, thing.size, others) and fits(placed := replace(thing, x=x, y=y)):
            return placed
    raise no_room(style, len(others) + 1)


def place_over(
    rng: Generator, thing: Thing, over: Thing, overlap: float, others: Sequence[Thing], style: Style
) -> Thing:
    """The thing at a place where it and `over` cover each other by `overlap`, apart from all
    others.

    At 0 they touch, as circles would, and at 1 their middles are at one place. Raises TaskError
    where there is none.
    """
    far, low = (1 - overlap) * (thing.size + over.size) / 2, thing.size * 0.6 + RIM
    for _ in range(PLACES):
        turn = float(rng.uniform(0, 2 * math.pi))
        x, y = over.x + far * math.cos(turn), over.y + far * math.sin(turn)
        if (
            low <= min(x, y)
            and max(x, y) <= style.side - low
            and _is_free(x, y, thing.size, others)
        ):
            return replace(thing, x=x, y=y)
    raise no_room(style, len(others) + 1)


def _is_free(x: float, y: float, size: float, others: Sequence[Thing]) -> bool:
    """Whether outlines keep apart, and boxes do not overlap, so that no point lies in two of
    them."""
    return all(
        math.hypot(x - other.x, y - other.y) >= 0.62 * (size + other.size)
        and max(abs(x - other.x), abs(y - other.y)) >= 0.5 * (size + other.size)
        for other in others
    )


def no_room(style: Style, count: int) -> TaskError:
    """What to say where so many things do not fit."""
    return TaskError(
        f"an image of {style.side} pixels has no room for {count} things; make them fewer"
    )
