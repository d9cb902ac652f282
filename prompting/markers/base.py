"""What all markers share: which marks they draw, in which units, on every part of every view, and
their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from looktwice.pipelines.geometry import PixelRect, Polygon, bounds, contains
from looktwice.pipelines.marks import Mark, Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample, check_marks
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import LOCAL, check_color
from looktwice.prompting.drawing.placement import Anchor
from looktwice.prompting.evidence import KEPT
from looktwice.prompting.markers.labels import UNLABELLED, Label, draw_labels

Side = Literal["width", "height", "shorter", "longer", "diagonal"]
NO_MARK = f"no mark to draw{KEPT}"
MAX_LENGTH = 10_000  # pixels; a longer length is surely a typo


@dataclass(frozen=True)
class Halo:
    """A rim of `width` pixels around a drawing, in `color`; "contrast" is black or white, against
    the drawing's."""

    width: float = 0
    color: str = "contrast"

    def __post_init__(self) -> None:
        check_color(self.color, "contrast", name="halo.color")
        check_lengths(self, "width", allow_zero=True, prefix="halo.")


@dataclass(frozen=True)
class Spot:
    """A mark as one part of a view shows it: `place` in pixels of the view, `part_rect` the part's
    area.

    `number` counts the sample's marks from 0.
    """

    number: int
    place: Mark
    part_rect: PixelRect


@dataclass(frozen=True)
class Marking(WithoutModel):
    """A stage that draws marks; a subclass gives `accepts` and `paint`.

    `label` says how marks are labelled; null draws no labels. Lengths are in pixels of the view.
    With `reference_height` they are meant for a view of that height and scale with the real one;
    with `relative_to` they are thousandths of that side of the view.
    `only` picks marks by label; empty means all. Raises ValueError that names the sample: for a
    mark outside its own image, for a label that has no room without hiding a point or another
    label, and if the sample has marks but `only` names none of them. Where no view shows a mark of
    its kind all stays as it is, and a note says so.
    """

    label: Label | None = field(default_factory=Label)
    reference_height: int | None = None
    relative_to: Side | None = None
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.reference_height is not None and self.reference_height < 1:
            raise ValueError(
                f"reference_height is 1 or more pixels, or null, found {self.reference_height}"
            )
        if self.reference_height is not None and self.relative_to is not None:
            raise ValueError(
                "reference_height and relative_to both say what lengths mean; keep one of the two"
            )
        scaled = self.reference_height is not None or self.relative_to is not None
        if self.lettering.font == "blink" and scaled:
            raise ValueError(
                'label.font "blink" does not scale, but reference_height or relative_to does'
            )

    def __call__(self, state: State, model: Model) -> State:
        """Draw on every view; a view that shows none of the marks is returned unchanged, with its
        own bytes."""
        check_marks(state.sample)
        self._check_only(state.sample)
        try:
            views = tuple(self.draw(view, state.sample.marks) for view in state.views)
        except ValueError as exc:
            raise ValueError(f"sample {state.sample.id}: {exc}") from exc
        if all(after is before for after, before in zip(views, state.views, strict=True)):
            return state.with_notes(f"{type(self).__name__}: {NO_MARK}")
        return state.replace(views=views)

    def draw(self, view: View, marks: Sequence[Mark]) -> View:
        """One view with its marks and labels; `marks` are in the pixels of the sample's images."""
        spots = [
            Spot(number, place, part_rect_of(view, place))
            for number, mark in enumerate(marks)
            if self.selects(mark)
            for place in view.to_view(mark)
        ]
        if not spots:
            return view
        pixels, scale = np.array(view.pixels), self.scale(view.size)
        anchors = self.paint(pixels, spots, scale)
        if self.lettering.placement != "none":
            others = [mark for mark in marks if isinstance(mark, Point) and not self.selects(mark)]
            draw_labels(
                pixels, [*anchors, *_unlabelled_anchors(view, others)], self.lettering, scale
            )
        pixels.flags.writeable = False  # so that the picture takes this array and not a copy
        return view.with_pixels(pixels)

    def selects(self, mark: Mark) -> bool:
        """Whether this marker draws a mark."""
        return self.accepts(mark) and (not self.only or mark.label in self.only)

    def scale(self, size: tuple[int, int]) -> float:
        """How many pixels of a view of (width, height) one unit of length is."""
        return length_scale(size, self.reference_height, self.relative_to)

    def accepts(self, mark: Mark) -> bool:
        """Whether this kind of mark is drawn."""
        raise NotImplementedError

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Draw on the picture itself; returns what each label belongs to."""
        raise NotImplementedError

    @property
    def lettering(self) -> Label:
        """How marks are labelled, `label: null` among it."""
        return self.label or UNLABELLED

    def label_text(self, spot: Spot) -> str:
        """The text of a spot's label."""
        return self.lettering.label_text(spot.place.label, spot.number)

    def drawn_labels(self, marks: Sequence[Mark]) -> list[str]:
        """The texts that are written beside those of a sample's marks that it draws."""
        texts = (
            self.lettering.label_text(mark.label, n)
            for n, mark in enumerate(marks)
            if self.selects(mark)
        )
        return list(texts) if self.lettering.placement != "none" else []

    def _check_only(self, sample: Sample) -> None:
        labels = [mark.label for mark in sample.marks]
        if self.only and labels and not set(self.only) & set(labels):
            raise ValueError(
                f"sample {sample.id}: only {', '.join(self.only)} was to be drawn, but there are"
                f" {', '.join(labels)}"
            )


@dataclass(frozen=True)
class ColoredMarking(Marking):
    """Draws marks in a colour.

    `color` is a CSS name, "#rrggbb", "contrast" (of six vivid colours the one that stands out from
    the pixels below), "black-or-white" (in the same way) or "distinct" (another colour for each
    mark). `alpha` is its opacity, 0..1.
    """

    color: str = "red"
    alpha: float = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_color(self.color, *LOCAL, "distinct")
        check_opacity(self, "alpha")


def check_opacity(thing: Any, name: str) -> None:
    """Raise ValueError for a setting that is no opacity."""
    if not 0 < getattr(thing, name) <= 1:
        found = getattr(thing, name)
        raise ValueError(f"{name} is an opacity, more than 0 and at most 1, found {found}")


def check_filling(thing: Any) -> None:
    """Raise ValueError where `fill` is no colour and not "mark", or `fill_alpha` no opacity."""
    if thing.fill is not None:
        check_color(thing.fill, "mark", name="fill")
    check_opacity(thing, "fill_alpha")


def length_scale(
    size: tuple[int, int], reference_height: int | None = None, relative_to: Side | None = None
) -> float:
    """How many pixels of a view of (width, height) a unit of length is; thousandths of the side
    `relative_to`."""
    width, height = size
    if reference_height is not None:
        return height / reference_height
    if relative_to is None:
        return 1.0
    sides = {"width": width, "height": height, "shorter": min(size), "longer": max(size)}
    return sides.get(relative_to, math.hypot(width, height)) / 1000


def part_rect_of(view: View, place: Mark) -> PixelRect:
    """The part of the view that shows a place: no drawing or label may reach into the image beside
    it."""
    parts = view.parts
    if len(parts) > 1:
        x, y = place.center
        parts = tuple(part for part in parts if contains(part.clip, x + 0.5, y + 0.5)) or parts
    return clip_pixels(parts[-1].clip, view.size)


def check_lengths(thing: Any, *names: str, allow_zero: bool = False, prefix: str = "") -> None:
    """Raise ValueError for a setting that is no length: more than 0, or 0 with `allow_zero`."""
    for name in names:
        value = getattr(thing, name)
        if not ((allow_zero and value == 0) or 0 < value < MAX_LENGTH):
            bound = "0 or more" if allow_zero else "more than 0"
            raise ValueError(
                f"{prefix}{name} is in pixels and {bound} (at most {MAX_LENGTH}), found {value}"
            )


@lru_cache(maxsize=256)
def clip_pixels(clip: Polygon, size: tuple[int, int]) -> PixelRect:
    left, top, right, bottom = (round(edge) for edge in bounds(clip))
    return max(0, left), max(0, top), min(size[0], right), min(size[1], bottom)


def _unlabelled_anchors(view: View, points: Iterable[Point]) -> list[Anchor]:
    """Anchors of points that this marker does not draw and that its labels must not hide."""
    places = [place for point in points for place in view.to_view(point)]
    return [
        Anchor("", x, y, (x, y, x + 1, y + 1), part_rect_of(view, place))
        for place in places
        for x, y in (place.center,)
    ]
