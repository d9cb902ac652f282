"""Converts the coordinates that a model gives in an image to pixels of the view from which that
image was resized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from looktwice.pipelines.geometry import Affine, bounds, intersect, rectangle
from looktwice.pipelines.marks import Box, Mark
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.grids.grids import find_source_box

__all__ = ["ToolError"]

Frame = Literal["pixels", "0-1", "0-1000"]
UNIT_PHRASES: dict[Frame, str] = {
    "pixels": "pixels of the image",
    "0-1": "shares of the image's width and height, from 0 to 1",
    "0-1000": "thousandths of the image's width and height, from 0 to 1000",
}
MAX_COORDINATE = 1e9  # pixels; larger numbers are rejected before they can overflow
MIN_INSIDE_SHARE = 0.25  # minimum share of a box inside its image; less suggests another unit
MAX_FRAME_EXCESS = (
    1.1  # factor of the largest coordinate of a normalised frame; more suggests another unit
)
OVERHANG_TOLERANCE = 0.5  # pixels by which a box may extend beyond the image without a remark
NO_MODEL = NoModel("a tool of an agent may not call the model; only the agent does")


class ToolError(ValueError):
    """Raised when a tool cannot do what the model asked; the message is addressed to the model."""


@dataclass(frozen=True, eq=False)
class ShownImage:
    """An image as it was sent to the model (`sent_view`) and as tools use it (`view`), which may be
    larger.

    `affine` maps points of `view` to points of `sent_view`, in pixel centres.
    """

    view: View
    sent_view: View
    affine: Affine = field(default_factory=Affine)

    @classmethod
    def from_view(cls, view: View, fit: Stage | None, state: State) -> ShownImage:
        """Resize a view with the stage `fit`. Raises ValueError if the stage does more than
        resize."""
        if fit is None:
            return cls(view, view)
        views = fit(make_view_state(state, view), NO_MODEL).views
        if len(views) != 1 or len(views[0].parts) != 1:
            raise ValueError(
                f"fit: {type(fit).__name__} made {len(views)} views of one; use a stage that only"
                " resizes a view, such as prompting.views.LongestSide"
            )
        if views[0].picture is view.picture:
            return cls(view, view)
        return cls(view, map_to_sources(view, views[0]), views[0].parts[0].affine)

    def locate(self, numbers: Sequence[float], frame: Frame, name: str) -> tuple[float, ...]:
        """Return a point (x, y) or box (left, top, right, bottom) that the model gave, in pixels of
        `view`.

        Points are pixel centres; boxes are edges, and are clipped to the image. Raises ToolError
        for places outside or mostly outside the image, for boxes without an area or with swapped
        corners, and for numbers that belong to another frame.
        """
        width, height = self.sent_view.size
        scaled = self._convert_to_pixels(numbers, frame)
        where = f"{name}, which is {width} x {height} pixels; give {UNIT_PHRASES[frame]}"
        if max(map(abs, scaled)) > MAX_COORDINATE:
            raise ToolError(f"{_format_numbers(numbers)} lies outside {where}")
        if other := _guess_frame(numbers, frame):
            kind = "point" if len(numbers) == 2 else "box"
            raise ToolError(
                f"the {kind} {_format_numbers(numbers)} lies outside what can be meant: its numbers"
                f" look like {other}; give {UNIT_PHRASES[frame]} ({name} has {width} x {height}"
                " pixels)"
            )
        if len(numbers) == 2:  # pixels are counted at centres, other frames from the edge
            x, y = (number - (0.0 if frame == "pixels" else 0.5) for number in scaled)
            if not (-0.5 <= x <= width - 0.5 and -0.5 <= y <= height - 0.5):
                raise ToolError(f"the point {_format_numbers(numbers)} lies outside {where}")
            return tuple(float(value) for value in self.affine.inverse((x, y)))
        if not (scaled[0] < scaled[2] and scaled[1] < scaled[3]):
            raise ToolError(
                f"the box {_format_numbers(numbers)} has no area; give left, top, right, bottom, in"
                " this order"
            )
        seen = intersect(rectangle(*scaled), rectangle(0, 0, width, height))
        if not seen:
            raise ToolError(f"the box {_format_numbers(numbers)} lies outside {where}")
        if _compute_area(bounds(seen)) < MIN_INSIDE_SHARE * _compute_area(scaled):
            raise ToolError(
                f"the box {_format_numbers(numbers)} lies for the most part outside {where}"
            )
        full = intersect(self.affine.inverse.map_polygon(seen), rectangle(0, 0, *self.view.size))
        if not full:
            raise ToolError(f"the box {_format_numbers(numbers)} has no area within {where}")
        return bounds(full)

    def describe_cut(self, numbers: Sequence[float], frame: Frame, name: str) -> str:
        """Return a sentence if `locate` clips this box to the image, otherwise an empty string."""
        width, height = self.sent_view.size
        left, top, right, bottom = (*self._convert_to_pixels(numbers, frame), 0.0, 0.0)[:4]
        if len(numbers) == 2 or (
            left >= -OVERHANG_TOLERANCE
            and top >= -OVERHANG_TOLERANCE
            and right <= width + OVERHANG_TOLERANCE
            and bottom <= height + OVERHANG_TOLERANCE
        ):
            return ""
        return (
            f"the box {_format_numbers(numbers)} reaches beyond {name}, which is {width} x {height}"
            f" pixels, and was cut there; give {UNIT_PHRASES[frame]}"
        )

    def _convert_to_pixels(self, numbers: Sequence[float], frame: Frame) -> list[float]:
        """Convert the numbers to pixels of the image as it was sent."""
        width, height = self.sent_view.size
        across, down = {
            "pixels": (1.0, 1.0),
            "0-1": (width, height),
            "0-1000": (width / 1000, height / 1000),
        }[frame]
        return [number * (down if k % 2 else across) for k, number in enumerate(numbers)]


def _guess_frame(numbers: Sequence[float], frame: Frame) -> str:
    """Return the unit that the numbers probably have if it is not that of `frame`, otherwise an
    empty string.

    Numbers from 0 to 1 are taken for shares: in another unit, such a box would be at most one unit
    wide. A point must also have a fractional part.
    """
    shares = min(numbers) >= 0 and max(numbers) <= 1
    shares = shares and (len(numbers) == 4 or any(number % 1 for number in numbers))
    if shares and frame != "0-1":
        return UNIT_PHRASES["0-1"]
    if frame != "pixels" and max(numbers) > MAX_FRAME_EXCESS * (1 if frame == "0-1" else 1000):
        return (
            UNIT_PHRASES["pixels"] if frame == "0-1000" else f"{UNIT_PHRASES['0-1000']}, or pixels"
        )
    return ""


def _compute_area(box: Sequence[float]) -> float:
    left, top, right, bottom = box
    return (right - left) * (bottom - top)


def make_view_state(state: State, view: View, *marks: Mark) -> State:
    """Return a state whose sample has `view` as its only image, and `marks`, which are in the
    view's pixels."""
    sample = replace(state.sample, images=(view.picture,), choices=(), marks=marks)
    return State.start(sample, state.seed, state.draw)


def map_to_sources(view: View, new: View) -> View:
    """Map the view `new`, which a stage made with `view` as its source image, to the sample's own
    images."""
    parts = [
        replace(
            old,
            affine=part.affine @ old.affine,
            clip=intersect(part.affine.map_polygon(old.clip), part.clip),
        )
        for part in new.parts
        for old in view.parts
    ]
    return View(new.picture, tuple(part for part in parts if part.clip))


def find_new_regions(views: Sequence[View], first: int) -> tuple[tuple[float, ...], ...]:
    """Return, for each view from index `first` on, the region of a source image that it shows, as
    (image, left, top, right, bottom). The region is empty for a view that shows no source image, or
    the same region as an earlier view. For a view of several images it is the region of the image
    that fills most of the view.
    """
    regions: list[tuple[float, ...]] = []
    new: list[tuple[float, ...]] = []
    for view in views:
        seen = find_source_box(view, Box("", 0, 0, *view.size))
        region = () if seen is None else (seen.image, *(round(edge, 2) for edge in seen.xyxy))
        alike = (r for r in regions if r and region and np.abs(np.subtract(r, region)).max() <= 1)
        new.append(() if any(alike) else region)
        regions.append(region)
    return tuple(new[first:])


def _format_numbers(numbers: Sequence[float]) -> str:
    return f"[{', '.join(f'{number:g}' for number in numbers)}]"
