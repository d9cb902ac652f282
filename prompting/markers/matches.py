"""Matches between two pictures as coloured links in one view: which of them, in which colours, drawn where."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.transforms import beside
from looktwice.pipelines.view import View
from looktwice.specialists.results import Matches

Floats = NDArray[np.float64]
RGB = tuple[int, int, int]
SHIFT = 4  # OpenCV draws at sixteenths of a pixel


def joined(views: Sequence[View], images: tuple[int, int], margin: int) -> list[View] | None:
    """The views with one that shows both source pictures; None where a picture is not shown at all."""
    sources = [{part.source for part in view.parts} for view in views]
    if any(set(images) <= shown for shown in sources):
        return list(views)
    places = [next((i for i, shown in enumerate(sources) if image in shown), None) for image in images]
    first, second = places
    if first is None or second is None:
        return None
    pair = beside([views[first], views[second]], margin)
    rest = [(i, view) for i, view in enumerate(views) if i not in (first, second)]
    return [view for _, view in sorted([*rest, (min(first, second), pair)], key=lambda entry: entry[0])]


def spread_out(matches: Matches, size: tuple[int, int], most: int) -> Matches:
    """At most so many of the matches: the most certain of each cell of the first picture, then the next of each.

    There are about as many square cells as matches are wanted; `size` is the first picture's (width, height).
    """
    side = max(1.0, (size[0] * size[1] / most) ** 0.5)
    cells = np.floor((matches.xy0 + 0.5) / side).astype(int)
    order = np.argsort(-matches.confidence, kind="stable")
    taken: dict[tuple[int, int], int] = {}
    turn = np.empty(len(matches), int)
    for row in order:
        cell = int(cells[row, 0]), int(cells[row, 1])
        turn[row] = taken[cell] = taken.get(cell, -1) + 1
    return matches[np.lexsort((-matches.confidence, turn))[:most]]


def ends(view: View, xy0: Floats, xy1: Floats, images: tuple[int, int]) -> list[Floats]:
    """The two ends (2, 2) of each link between a place (2,) of one and one of another source picture in a view."""
    here, there = (
        view.to_view(Point("", float(xy[0]), float(xy[1]), image)) for xy, image in zip((xy0, xy1), images, strict=True)
    )
    return [np.array([one.center, two.center]) for one in here for two in there]


def link(pixels: Pixels, line: Floats, color: RGB, thickness: int, radius: float) -> None:
    """Draw a line between two dots, in place; both ends in pixel centres of the view."""
    one, two = (tuple(int(v) for v in np.rint(end * 2**SHIFT)) for end in line)
    cv2.line(pixels, one, two, color, thickness, cv2.LINE_AA, SHIFT)
    for end in (one, two):
        cv2.circle(pixels, end, round(radius * 2**SHIFT), color, cv2.FILLED, cv2.LINE_AA, SHIFT)


def scale_color(share: float, low: float, high: float) -> RGB:
    """The colour at `share` 0..1 between two hues, themselves shares of the circle, fully bright."""
    red, green, blue = colorsys.hsv_to_rgb(low + (high - low) * share, 1.0, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)
