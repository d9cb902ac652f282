"""View transforms that keep the map to the source images: resize, crop, pad, rotate, flip, and
placing views side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import cv2
import numpy as np

from looktwice.pipelines.geometry import Affine, warp
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.view import View

__all__ = ["crop", "flip", "join_side_by_side", "pad", "resize", "rotate"]

RGB = tuple[int, int, int]
BLACK: RGB = (0, 0, 0)

Filter = Literal["nearest", "linear", "cubic", "lanczos", "area"]
FILTERS: dict[Filter, int] = {
    "nearest": cv2.INTER_NEAREST_EXACT,  # the plain one is up to half a pixel off the map
    "linear": cv2.INTER_LINEAR,
    "cubic": cv2.INTER_CUBIC,
    "lanczos": cv2.INTER_LANCZOS4,
    "area": cv2.INTER_AREA,
}


def resize(view: View, width: int, height: int, filter: Filter | None = None) -> View:
    """Resize to `width` x `height` pixels. Without a filter, shrinking sides are area-averaged and
    growing sides interpolated cubically."""
    old_width, old_height = view.size
    if width < 1 or height < 1:
        raise ValueError(
            f"a picture cannot be resized to {width} x {height} pixels; both must be 1 or more"
        )
    if filter is None:
        pixels = resample(view.pixels, width, height)
    else:
        pixels = _rgb(cv2.resize(view.pixels, (width, height), interpolation=FILTERS[filter]))
    return view.transform(
        Picture(_rgb(pixels)), Affine.resize(width / old_width, height / old_height)
    )


def resample(pixels: Pixels, width: int, height: int, growing: Filter = "cubic") -> Pixels:
    """Resize pixels: shrinking sides are averaged over areas first, then growing sides are
    interpolated.

    This takes two steps because OpenCV averages neither side if one of them grows.
    """
    old_height, old_width = pixels.shape[:2]
    smaller = min(width, old_width), min(height, old_height)
    if smaller != (old_width, old_height):
        pixels = _rgb(cv2.resize(pixels, smaller, interpolation=cv2.INTER_AREA))
    if smaller != (width, height):
        pixels = _rgb(cv2.resize(pixels, (width, height), interpolation=FILTERS[growing]))
    return pixels


def crop(view: View, x0: float, y0: float, x1: float, y1: float) -> View:
    """Crop to a box in edge coordinates, rounded outwards to pixels and clipped to the picture."""
    width, height = view.size
    left, top = max(0, math.floor(x0)), max(0, math.floor(y0))
    right, bottom = min(width, math.ceil(x1)), min(height, math.ceil(y1))
    if right <= left or bottom <= top:
        raise ValueError(
            f"the crop ({x0}, {y0}, {x1}, {y1}) lies outside the picture of {width} x"
            f" {height} pixels"
        )
    return view.transform(Picture(view.pixels[top:bottom, left:right]), Affine.shift(-left, -top))


def pad(
    view: View, left: int = 0, top: int = 0, right: int = 0, bottom: int = 0, color: RGB = BLACK
) -> View:
    """Add a border of one colour; widths in pixels."""
    if min(left, top, right, bottom) < 0:
        raise ValueError(
            f"padding must be 0 or more pixels on each side, found {(left, top, right, bottom)};"
            " use `crop` to remove pixels"
        )
    pixels = cv2.copyMakeBorder(
        view.pixels, top, bottom, left, right, cv2.BORDER_CONSTANT, value=color
    )
    return view.transform(Picture(_rgb(pixels)), Affine.shift(left, top))


def flip(view: View) -> View:
    """Mirror horizontally: x' = width - 1 - x."""
    return view.transform(Picture(view.pixels[:, ::-1]), Affine(a=-1.0, c=view.size[0] - 1))


def rotate(view: View, degrees: float, color: RGB = BLACK) -> View:
    """Rotate counter-clockwise about the centre; the picture grows so that nothing is cut off.

    Quarter turns are exact; other angles are resampled linearly, on a background of one colour.
    """
    new = compute_rotated_size(view.size, degrees)
    (width, height), turn = view.size, Affine.rotation(degrees)
    to_origin = Affine.shift(-(width - 1) / 2, -(height - 1) / 2)
    affine = Affine.shift((new[0] - 1) / 2, (new[1] - 1) / 2) @ turn @ to_origin
    if degrees % 90 == 0:
        pixels = np.rot90(view.pixels, int(degrees // 90) % 4)
    else:
        pixels = _rgb(warp(view.pixels, affine, new, fill=color))
    return view.transform(Picture(_rgb(pixels)), affine)


def compute_rotated_size(size: tuple[int, int], degrees: float) -> tuple[int, int]:
    """Return the (width, height) that `rotate` gives a picture of this size."""
    (width, height), angle = size, math.radians(degrees)
    if degrees % 90 == 0:
        return (height, width) if degrees % 180 else (width, height)
    cos, sin = abs(math.cos(angle)), abs(math.sin(angle))
    return math.ceil(width * cos + height * sin), math.ceil(width * sin + height * cos)


def join_side_by_side(views: Sequence[View], margin: int = 0, color: RGB = BLACK) -> View:
    """Join views from left to right with `margin` pixels between, each centred vertically, as in
    BLINK's official concatenation."""
    if not views:
        raise ValueError("there is no view to join")
    height = max(view.size[1] for view in views)
    width = sum(view.size[0] for view in views) + margin * (len(views) - 1)
    canvas, left, placed = View(Picture(np.full((height, width, 3), color, np.uint8))), 0, []
    for view in views:
        placed.append((view, left, (height - view.size[1]) // 2))
        left += view.size[0] + margin
    return paste(canvas, placed)


def paste(canvas: View, placed: Sequence[tuple[View, int, int]]) -> View:
    """Paste views onto a canvas with their top-left pixels at (left, top); later ones on top."""
    pixels, parts = np.array(canvas.pixels), list(canvas.parts)
    frame_height, frame_width = pixels.shape[:2]
    for view, left, top in placed:
        width, height = view.size
        if left < 0 or top < 0 or left + width > frame_width or top + height > frame_height:
            raise ValueError(
                f"a view of {width} x {height} pixels at ({left}, {top}) "
                f"extends beyond the canvas of {frame_width} x {frame_height}"
            )
        pixels[top : top + height, left : left + width] = view.pixels
        affine = Affine.shift(left, top)
        parts += [
            replace(p, affine=affine @ p.affine, clip=affine.map_polygon(p.clip))
            for p in view.parts
        ]
    return View(Picture(pixels), tuple(parts))


def _rgb(pixels: object) -> Pixels:
    return np.ascontiguousarray(np.asarray(pixels, np.uint8))
