"""The common base of all markers, which selects the marks, converts units, draws on every part of
every view, and adds labels."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from string import ascii_uppercase
from typing import ClassVar, Literal

import numpy as np

from looktwice.pipelines.geometry import PixelRect, Polygon, Size, bounds, contains
from looktwice.pipelines.marks import Mark, Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.ranges import Ranged, check_ranges
from looktwice.pipelines.sample import check_marks, prefix_errors
from looktwice.pipelines.state import NO_MARK_NOTE, State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import (
    LOCAL_COLORS,
    RGB,
    check_color,
    choose_readable_color,
    choose_region_color,
    parse_rgb,
)
from looktwice.prompting.drawing.placement import Anchor, Placement, place_labels
from looktwice.prompting.drawing.shapes import paint_coverage
from looktwice.prompting.drawing.text import (
    BLINK_FONT_SIZE,
    MIN_EM,
    draw_text,
    measure_plate,
    render_plate,
    render_text,
)

MAX_NAMED_LABELS = 100  # up to this many labels, an error names the one without room


@dataclass(frozen=True)
class Label:
    """The label style of marks; lengths are in the units of the marker that holds it.

    `text` may contain {label} (the mark's own label), {number} (counted from 1 in the sample's
    order) and {letter} (A for the first). `font_size` is the em; `font` is Pillow's sans serif or
    the letters of BLINK's released images (A to F and R, only at size 15); `font_file` is a
    TrueType file to use instead. `color` and `plate` are CSS names, "#rrggbb" or "contrast" (black
    or white, depending on the pixels below); `plate` may also be "mark", the mark's own colour, or
    "none". `alpha` is the plate's opacity 0..1, `padding` its margin around the letters,
    `min_width` its minimum width. `halo` is a black or white rim around the letters of a label
    without a plate. `placement` is the side that is tried first ("inside": the centre of the
    region's largest inscribed circle), and `gap` is the number of free pixels between drawing and
    label.
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
        unknown = re.sub(r"{(label|number|letter)}", "", self.text)
        if "{" in unknown or "}" in unknown or not self.text:
            raise ValueError(
                "label.text may contain text and {label}, {number} or {letter}, got"
                f" {self.text!r}"
            )
        check_ranges(
            self,
            "font_size > 0",
            "font_size, padding, min_width, halo, gap < 10000",
            "padding, min_width, halo, gap, alpha >= 0",
            "alpha <= 1",
            prefix="label.",
        )
        if self.font == "blink" and (self.font_size != BLINK_FONT_SIZE or self.font_file):
            raise ValueError(
                f'label.font "blink" only exists at font_size {BLINK_FONT_SIZE};'
                " set label.font: sans"
            )

    def format_label(self, label: str, number: int) -> str:
        """Return the text for mark `number`, counted from 0 in the sample's order."""
        letter = ascii_uppercase[number % 26] * (number // 26 + 1)
        parts = {"{label}": label, "{number}": str(number + 1), "{letter}": letter}
        return re.sub(r"{\w+}", lambda match: parts[match[0]], self.text).strip()


NO_LABEL = Label(placement="none")
"""The label settings that `label: null` stands for, with which no labels are drawn."""


def draw_labels(
    pixels: Pixels, anchors: Sequence[Anchor], label: Label, scale: float = 1
) -> list[PixelRect]:
    """Draw the label of every anchor that has text into the picture, and return the areas of the
    labels.

    An anchor without text gets no label, but no label may hide it.

    `scale` multiplies the label's lengths. Raises ValueError for a label that has no room without
    hiding a point or another label, and for a letter that the font does not have.
    """
    if label.placement == "none":
        return []
    texts = [anchor for anchor in anchors if anchor.text]
    others = [anchor for anchor in anchors if not anchor.text]
    em = label.font_size if label.font == "blink" else max(MIN_EM, label.font_size * scale)
    font = label.font_file or label.font
    padding, min_width = round(label.padding * scale), round(label.min_width * scale)
    sizes, crowds = [], dict[PixelRect, list[int]]()
    for anchor in texts:
        width, height = measure_plate(render_text(anchor.text, em, font), padding, min_width)
        sizes.append((width, height))
        crowds.setdefault(anchor.frame, []).append(width * height)
    for (left, top, right, bottom), crowd in crowds.items():
        if len(crowd) > MAX_NAMED_LABELS and sum(crowd) > (right - left) * (bottom - top):
            raise ValueError(
                f"{len(crowd):,} labels together are larger than the view of {right - left} x"
                f" {bottom - top} pixels; set label.placement: none, less label.font_size, or"
                " `only` for some of the marks"
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
    width, height = right - left, bottom - top
    font, padding = label.font_file or label.font, round(label.padding * scale)
    ground = anchor.color if label.plate == "mark" else None
    if label.plate not in ("mark", "none"):
        ground = _resolve_color(label.plate, pixels, area)
    color = _resolve_color(label.color, pixels, area)
    if ground and label.color == "contrast":
        color = choose_readable_color(ground)
    if ground and label.alpha == 1:
        lettered = render_plate(anchor.text, em, color, ground, padding, width, font)
        pixels[top:bottom, left:right] = lettered
        return
    if ground and label.alpha:
        whole = np.ones((height, width), np.float32)
        paint_coverage(pixels, area, left, top, whole, ground, label.alpha)
    start = left + (width - render_text(anchor.text, em, font).shape[1]) // 2
    halo = 0 if ground else round(label.halo * scale)
    draw_text(pixels, anchor.text, start, top + padding, em, color, halo, font)


def _resolve_color(color: str, pixels: Pixels, area: PixelRect) -> RGB:
    """Return the colour of a setting; "contrast" is black or white, depending on the pixels
    around."""
    return choose_region_color(color.replace("contrast", "black-or-white"), pixels, area)


Side = Literal["width", "height", "shorter", "longer", "diagonal"]


@dataclass(frozen=True)
class Halo:
    """A rim of `width` pixels around a drawing, in `color`; "contrast" is black or white, depending
    on the drawing's colour."""

    width: float = 0
    color: str = "contrast"

    def __post_init__(self) -> None:
        check_color(self.color, "contrast", name="halo.color")
        check_ranges(self, "width >= 0", "width < 10000", prefix="halo.")

    def choose_color(self, color: RGB) -> RGB:
        """Return the rim's colour around a drawing of this colour."""
        return choose_readable_color(color) if self.color == "contrast" else parse_rgb(self.color)


@dataclass(frozen=True)
class Spot:
    """A mark as one part of a view shows it: `place` is the mark in pixels of the view, `part_rect`
    the part's area.

    `number` counts the sample's marks from 0.
    """

    number: int
    place: Mark
    part_rect: PixelRect


@dataclass(frozen=True)
class Marking(Ranged, WithoutModel):
    """A stage that draws marks; a subclass implements `accepts` and `paint`.

    `label` sets how marks are labelled; null draws no labels. Lengths are in pixels of the view.
    With `reference_height` they are meant for a view of that height, and scale with the real
    height; with `relative_to` they are thousandths of that side of the view.

    `only` selects marks by label; empty means all. Raises a ValueError that names the sample: for a
    mark outside its own image, for a label that has no room without hiding a point or another
    label, and if the sample has marks but `only` names none of them. If no view shows a suitable
    mark, the state stays unchanged except for a note.
    """

    label: Label | None = field(default_factory=Label)
    reference_height: int | None = None
    relative_to: Side | None = None
    only: tuple[str, ...] = ()

    ranges: ClassVar[tuple[str, ...]] = ("reference_height >= 1",)

    def __post_init__(self) -> None:
        if not isinstance(self.label, Label | None):
            raise ValueError(
                f"label must be a Label or None, got {self.label!r}; pass settings by name,"
                f" such as {type(self).__name__}(only=('A',))"
            )
        super().__post_init__()
        if self.reference_height is not None and self.relative_to is not None:
            raise ValueError(
                "reference_height and relative_to both set the unit of lengths; keep one of them"
            )
        scaled = self.reference_height is not None or self.relative_to is not None
        if self.label_settings.font == "blink" and scaled:
            raise ValueError(
                'label.font "blink" has one size, so reference_height and relative_to cannot'
                " scale it; set label.font: sans"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Draw on every view; a view that shows none of the marks is returned unchanged, with its
        own bytes."""
        check_marks(state.sample)
        labels = [mark.label for mark in state.sample.marks]
        if self.only and labels and set(self.only).isdisjoint(labels):
            raise ValueError(
                f"sample {state.sample.id}: `only` names {', '.join(self.only)}, but the"
                f" marks are {', '.join(labels)}"
            )
        with prefix_errors(state.sample):
            views = tuple(self.draw(view, state.sample.marks) for view in state.views)
        if [*map(id, views)] == [*map(id, state.views)]:
            return state.with_notes(f"{type(self).__name__}: {NO_MARK_NOTE}")
        return state.replace(views=views)

    def draw(self, view: View, marks: Sequence[Mark]) -> View:
        """Return one view with its marks and labels; `marks` are in the pixels of the sample's
        images."""
        spots = [
            Spot(number, place, find_part_rect(view, place))
            for number, mark in enumerate(marks)
            if self.selects(mark)
            for place in view.to_view(mark)
        ]
        if not spots:
            return view
        pixels, scale = np.array(view.pixels), self.compute_scale(view.size)
        anchors = self.paint(pixels, spots, scale)
        if self.label_settings.placement != "none":
            for mark in marks:  # points of other markers, which no label may hide
                if isinstance(mark, Point) and not self.selects(mark):
                    for place in view.to_view(mark):
                        x, y = place.center
                        frame = find_part_rect(view, place)
                        anchors.append(Anchor("", x, y, (x, y, x + 1, y + 1), frame))
            draw_labels(pixels, anchors, self.label_settings, scale)
        pixels.flags.writeable = False  # so that the picture uses this array rather than a copy
        return view.with_pixels(pixels)

    def selects(self, mark: Mark) -> bool:
        """Return whether this marker draws a mark."""
        return self.accepts(mark) and (not self.only or mark.label in self.only)

    def compute_scale(self, size: Size) -> float:
        """Return the number of pixels per unit of length, in a view of (width, height)."""
        width, height = size
        if self.reference_height is not None:
            return height / self.reference_height
        if self.relative_to is None:
            return 1.0
        sides = {"width": width, "height": height, "shorter": min(size), "longer": max(size)}
        return sides.get(self.relative_to, math.hypot(width, height)) / 1000

    def accepts(self, mark: Mark) -> bool:
        """Return whether this kind of mark is drawn."""
        raise NotImplementedError

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Draw these marks into the picture, and return the anchors of their labels."""
        raise NotImplementedError

    @property
    def label_settings(self) -> Label:
        """The label settings; `NO_LABEL` for `label: null`."""
        return self.label or NO_LABEL

    def format_label(self, spot: Spot) -> str:
        """Return the text of a spot's label."""
        return self.label_settings.format_label(spot.place.label, spot.number)

    def list_labels(self, marks: Sequence[Mark]) -> list[str]:
        """Return the texts of the labels that are drawn for a sample's marks."""
        label = self.label_settings
        chosen = [(n, mark.label) for n, mark in enumerate(marks) if self.selects(mark)]
        return [label.format_label(own, n) for n, own in chosen if label.placement != "none"]


@dataclass(frozen=True)
class ColoredMarking(Marking):
    """Draws marks in a colour.

    `color` is a CSS name, "#rrggbb", "contrast" (the one of six vivid colours that stands out most
    from the pixels below), "black-or-white" (chosen in the same way) or "distinct" (another colour
    for each mark). `alpha` is its opacity, 0..1.
    """

    color: str = "red"
    alpha: float = 1

    ranges: ClassVar[tuple[str, ...]] = ("alpha > 0", "alpha <= 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_color(self.color, *LOCAL_COLORS, "distinct")
        check_color(getattr(self, "fill", None) or "mark", "mark", name="fill")


def find_part_rect(view: View, place: Mark) -> PixelRect:
    """Return the area of the view's part that shows a mark. No drawing or label may extend into a
    neighbouring image."""
    parts = view.parts
    if len(parts) > 1:
        x, y = place.center
        parts = tuple(part for part in parts if contains(part.clip, x + 0.5, y + 0.5)) or parts
    return find_clip_rect(parts[-1].clip, view.size)


@lru_cache(maxsize=256)
def find_clip_rect(clip: Polygon, size: Size) -> PixelRect:
    """Return the bounding box of a part's polygon, in whole pixels inside the view."""
    left, top, right, bottom = (round(edge) for edge in bounds(clip))
    return max(0, left), max(0, top), min(size[0], right), min(size[1], bottom)
