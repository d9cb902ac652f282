"""Matches between two pictures, drawn as coloured lines in one view."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.transforms import beside
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import RGB, rgb
from looktwice.prompting.evidence import Missing, handle_missing, with_views
from looktwice.specialists.protocols import Matcher, NoEvidence
from looktwice.specialists.results import Matches
from looktwice.specialists.sharing import look_once

Floats = NDArray[np.float64]
SHIFT = 4  # OpenCV draws at sixteenths of a pixel


@dataclass(frozen=True)
class MatchOverlay(WithoutModel):
    """Places that a matcher finds in both of two pictures, joined by coloured lines in one view.

    `images` are the numbers of the two source pictures. A view that shows both is drawn on; where there is none,
    the first views of each are laid beside one another, `margin` pixels apart, in place of the first of them. Of
    more than `most` matches those are taken that spread over the first picture, and among neighbours the most
    certain; below `min_confidence` none. Lines run between the dots, both in `color`: "position" gives each
    height in the first picture a hue, "confidence" runs from red (0) to green (1), anything else is a CSS name or
    "#rrggbb". `thickness` and `radius` are in pixels of the view. A pair of fewer than `min_matches` is missing:
    `missing` says what is done. `words` is a sentence for the prompt.
    """

    matcher: Matcher
    images: tuple[int, int] = (0, 1)
    most: int = 40
    min_matches: int = 1
    min_confidence: float = 0
    color: str = "position"
    thickness: int = 1
    radius: float = 3
    margin: int = 10
    missing: Missing = "fail"
    words: str = ""

    def __post_init__(self) -> None:
        if self.color not in ("position", "confidence"):
            rgb(self.color)
        if self.images[0] == self.images[1]:
            raise ValueError(f"images names two different pictures, found {self.images}")
        if self.most < 1 or self.min_matches < 1 or self.thickness < 1 or not self.radius > 0 or self.margin < 0:
            raise ValueError(
                "most, min_matches and thickness are 1 or more, radius more than 0 and margin 0 or more, found "
                f"{self.most}, {self.min_matches}, {self.thickness}, {self.radius} and {self.margin}"
            )

    def __call__(self, state: State, model: Model) -> State:
        """The views with the lines; other views are returned unchanged. Raises ValueError that names the sample."""
        sample, count = state.sample, len(state.sample.images)
        if not all(0 <= number < count for number in self.images):
            raise ValueError(f"sample {sample.id}: images names {self.images}, but there are {count}, counted from 0")
        views = join_views(state.views, self.images, self.margin)
        try:
            if views is None:
                raise NoEvidence(f"the views do not show both images {self.images}")
            matches = self.find_matches(sample)
        except NoEvidence as exc:
            return handle_missing(state, self.missing, [str(exc)])
        return with_views(state, [self.draw_matches(view, matches, sample) for view in views], self.words)

    def find_matches(self, sample: Sample) -> Matches:
        """The matches to show, most certain last so that they lie on top. Raises NoEvidence."""
        first, second = (sample.images[number] for number in self.images)
        found = look_once(self.matcher, first.pixels, second.pixels)
        found = found[found.confidence >= self.min_confidence]
        if len(found) < self.min_matches:
            raise NoEvidence(f"{len(found)} matches, at least {self.min_matches} are needed")
        kept = spread_matches(found, first.size, self.most)
        return kept[np.argsort(kept.confidence, kind="stable")]

    def draw_matches(self, view: View, matches: Matches, sample: Sample) -> View:
        """One view with the matches of which it shows both ends."""
        pixels, drawn = np.array(view.pixels), False
        height = sample.images[self.images[0]].size[1]
        for row in range(len(matches)):
            share = float(matches.xy0[row, 1] + 0.5) / height
            color = self._color(share, float(matches.confidence[row]))
            for line in line_ends(view, matches.xy0[row], matches.xy1[row], self.images):
                draw_link(pixels, line, color, self.thickness, self.radius)
                drawn = True
        return view.with_pixels(pixels) if drawn else view

    def _color(self, share: float, confidence: float) -> tuple[int, int, int]:
        if self.color == "position":
            return hue_between(share, 0, 0.83)
        return hue_between(confidence, 0, 1 / 3) if self.color == "confidence" else rgb(self.color)


def join_views(views: Sequence[View], images: tuple[int, int], margin: int) -> list[View] | None:
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


def spread_matches(matches: Matches, size: tuple[int, int], most: int) -> Matches:
    """At most `most` of the matches: the most certain of each cell of the first picture, then the next of each.

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


def line_ends(view: View, xy0: Floats, xy1: Floats, images: tuple[int, int]) -> list[Floats]:
    """The two ends (2, 2) of each line between a place (2,) of one and one of another source picture in a view."""
    here, there = (
        view.to_view(Point("", float(xy[0]), float(xy[1]), image)) for xy, image in zip((xy0, xy1), images, strict=True)
    )
    return [np.array([one.center, two.center]) for one in here for two in there]


def draw_link(pixels: Pixels, line: Floats, color: RGB, thickness: int, radius: float) -> None:
    """Draw a line between two dots, in place; both ends in pixel centres of the view."""
    one, two = (tuple(int(v) for v in np.rint(end * 2**SHIFT)) for end in line)
    cv2.line(pixels, one, two, color, thickness, cv2.LINE_AA, SHIFT)
    for end in (one, two):
        cv2.circle(pixels, end, round(radius * 2**SHIFT), color, cv2.FILLED, cv2.LINE_AA, SHIFT)


def hue_between(share: float, low: float, high: float) -> RGB:
    """The colour at `share` 0..1 between two hues, themselves shares of the circle, fully bright."""
    red, green, blue = colorsys.hsv_to_rgb(low + (high - low) * share, 1.0, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)
