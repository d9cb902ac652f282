"""Labels of marks: their text, look and place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Literal

import numpy as np

from looktwice.pipelines.geometry import PixelRect
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import (
    BLACK_WHITE,
    RGB,
    check_color,
    contrasting_color,
    readable_color,
    rgb,
)
from looktwice.prompting.drawing.placement import Anchor, Placement, place_labels
from looktwice.prompting.drawing.shapes import paint_coverage
from looktwice.prompting.drawing.text import BLINK_SIZE, draw_text, plate, plate_size, render_text

SMALLEST = 6.0  # an em in pixels, below which no letter can be told from another
FEW = 100  # labels, of which the one that has no room is named


@dataclass(frozen=True)
class Label:
    """How marks are labelled; lengths are in the units of the marker that holds it.

    `text` may hold {label}, the mark's own, {number}, counted from 1 in the sample's order, and
    {letter}, A for the first. `font_size` is the em; `font` is Pillow's sans serif or the letters
    of BLINK's released images (A to F and R, at size 15 alone); `font_file` is a TrueType file
    instead. `color` and `plate` are CSS names, "#rrggbb" or "contrast" (black or white against what
    lies below); `plate` may be "mark", the mark's own colour, or "none". `alpha` is the plate's
    opacity 0..1, `padding` its rim around the letters, `min_width` its least width; `halo` is a rim
    of black or white around the letters of a label without a plate. `placement` is the side that is
    tried first ("inside": the middle of the largest circle that a region holds), and `gap` the free
    pixels between drawing and label.
    """

    text: str = "{label}"
    font_size: float = 15
    font: Literal["sans", "blink"] = "sans"
    font_file: Path | None = None
    color: str = "white"
    plate: str = "black"
    alpha: float = 1
    padding: float = 2
    min_width: float = 0
    halo: float = 0
    gap: float = 3
    placement: Placement = "auto"

    def __post_init__(self) -> None:
        check_color(self.color, "contrast", name="label.color")
        check_color(self.plate, "contrast", "mark", "none", name="label.plate")
        strange = re.sub(r"{(label|number|letter)}", "", self.text)
        if "{" in strange or "}" in strange or not self.text:
            raise ValueError(
                "label.text holds words and {label}, {number} or {letter}, found"
                f" {self.text!r}"
            )
        if not 0 < self.font_size < 10_000:
            raise ValueError(
                f"label.font_size is an em in pixels and more than 0, found {self.font_size}"
            )
        for name in ("padding", "min_width", "halo", "gap"):
            if not 0 <= getattr(self, name) < 10_000:
                raise ValueError(f"label.{name} is 0 or more pixels, found {getattr(self, name)}")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"label.alpha lies in 0..1, found {self.alpha}")
        if self.font == "blink" and (self.font_size != BLINK_SIZE or self.font_file):
            raise ValueError(
                f'label.font "blink" has letters of font_size {BLINK_SIZE} alone; set label.font:'
                " sans"
            )

    def label_text(self, label: str, number: int) -> str:
        """The text for mark `number`, counted from 0 in the sample's order."""
        letter = ascii_uppercase[number % 26] * (number // 26 + 1)
        said = {"{label}": label, "{number}": str(number + 1), "{letter}": letter}
        return re.sub(r"{\w+}", lambda found: said[found[0]], self.text).strip()


UNLABELLED = Label(placement="none")
"""What `label: null` stands for."""


def draw_labels(
    pixels: Pixels, anchors: Sequence[Anchor], label: Label, scale: float = 1
) -> list[PixelRect]:
    """Label every anchor that has a text, on the picture itself; gives the labels' areas.

    An anchor without a text gets no label, but none may hide it.
    `scale` multiplies the label's lengths. Raises ValueError for a label that has no room without
    hiding a point or another label, and for a letter that the font does not have.
    """
    if label.placement == "none":
        return []
    texts = [anchor for anchor in anchors if anchor.text]
    others = [anchor for anchor in anchors if not anchor.text]
    em = label.font_size if label.font == "blink" else max(SMALLEST, label.font_size * scale)
    font, padding, min_width = (
        label.font_file or label.font,
        round(label.padding * scale),
        label.min_width * scale,
    )
    sizes = [
        plate_size(render_text(anchor.text, em, font), padding, round(min_width))
        for anchor in texts
    ]
    for frame in dict.fromkeys(anchor.frame for anchor in texts):
        own = [size for anchor, size in zip(texts, sizes, strict=True) if anchor.frame == frame]
        width, height = frame[2] - frame[0], frame[3] - frame[1]
        if len(own) > FEW and sum(across * down for across, down in own) > width * height:
            raise ValueError(
                f"{len(own):,} labels are larger together than the view of {width} x {height}"
                " pixels; set label.placement: none, less label.font_size, or `only` for some of"
                " the marks"
            )
    areas = place_labels([*texts, *others], sizes, label.placement, label.gap * scale)
    for anchor, size, area in zip(texts, sizes, areas, strict=False):
        if area is None:
            left, top, right, bottom = anchor.frame
            raise ValueError(
                f"label {anchor.text!r} of {size[0]} x {size[1]} pixels has no room in the view of"
                f" {right - left} x {bottom - top} pixels without hiding a point or another label;"
                " set label.placement: none or less label.font_size"
            )
        _draw_label(pixels, anchor, label, area, em, scale)
    return [area for area in areas if area]


def _draw_label(
    pixels: Pixels, anchor: Anchor, label: Label, area: PixelRect, em: float, scale: float
) -> None:
    left, top, right, bottom = area
    font, padding = label.font_file or label.font, round(label.padding * scale)
    ground = anchor.color if label.plate == "mark" else None
    if label.plate not in ("mark", "none"):
        ground = _color(label.plate, pixels, area)
    color = (
        readable_color(ground)
        if ground and label.color == "contrast"
        else _color(label.color, pixels, area)
    )
    if ground and label.alpha == 1:
        pixels[top:bottom, left:right] = plate(
            anchor.text, em, color, ground, padding, right - left, font
        )
        return
    if ground and label.alpha:
        paint_coverage(
            pixels,
            area,
            left,
            top,
            np.ones((bottom - top, right - left), np.float32),
            ground,
            label.alpha,
        )
    start = left + (right - left - render_text(anchor.text, em, font).shape[1]) // 2
    halo = 0 if ground else round(label.halo * scale)
    draw_text(pixels, anchor.text, start, top + padding, em, color, halo, font)


def _color(color: str, pixels: Pixels, area: PixelRect) -> RGB:
    """The colour of a setting; "contrast" is black or white against the pixels of the area."""
    if color != "contrast":
        return rgb(color)
    left, top, right, bottom = area
    reach = max(right - left, bottom - top) / 2
    return contrasting_color(
        pixels, (left + right - 1) / 2, (top + bottom - 1) / 2, reach, BLACK_WHITE
    )
