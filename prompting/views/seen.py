"""A picture as a model sees it after the resizing, tiles and patches of its processor, and notes on
what is lost: views and marks that it cannot see, and drawings of stages that are smaller than a
patch or lose their colour in the encoding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf
from typing import ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines import transforms
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.geometry import Affine, rectangle
from looktwice.pipelines.marks import Box, Mark, Point, bounding_box
from looktwice.pipelines.model import Model
from looktwice.pipelines.models.image_tokens import LARGE_INPUT_CLAUDE_REGEX, find_image_rule
from looktwice.pipelines.models.processors.layouts import Layout, Size, Stack, find_processor
from looktwice.pipelines.sample import prefix_errors
from looktwice.pipelines.state import Stage, State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.grids.grids import find_source_box
from looktwice.prompting.views.resize import (
    ClaudePatches,
    OpenAIPatches,
    OpenAITiles,
    SizeRule,
    resize_view,
)

PROVIDER_RULES: tuple[tuple[str, SizeRule, int], ...] = (
    (LARGE_INPUT_CLAUDE_REGEX, ClaudePatches(edge=2576, budget=4784), 28),
    (r"claude", ClaudePatches(), 28),
    (r"gpt-(4\.1|5)-(mini|nano)|o4-mini|gpt-5\.2|gpt-5[\d.]*-codex", OpenAIPatches(), 32),
    (r"(gpt-|chatgpt-)(4o|4\.1|4\.5)|o[13](?!-mini)|gpt-5(?![\d.])", OpenAITiles(), 0),
)
"""The models of providers: a pattern for the beginning of a model's name, the rule for the size at
which it sees a picture, and the side of its patches (0 if none is published)."""
MIN_DRAWN_DIFFERENCE = 24  # minimum difference, in levels of a channel, of a drawn pixel
MIN_CHROMA_SHARE = 0.6
"""The share of a drawing's chroma below which it counts as lost: a one-pixel line in 4:2:0 keeps
half."""
SCALE_TOLERANCE = 1.01  # factor: tolerance for the rounding of sizes


@dataclass(frozen=True)
class AsSeen(WithoutModel):
    """Shows every view as the processor of `model` passes it to the encoder: resized, padded or
    cut, in tiles, and with an overview if the processor adds one.

    `model` is a name whose rule is known: an open model in transformers, such as
    "Qwen2.5-VL-7B-Instruct" or "llava-v1.6-mistral-7b-hf", or a model of OpenAI or Anthropic.
    `stack` is the software that prepares images for an open model: "transformers", whose Pillow
    backend is imitated, or "mistral-common", with which vLLM and Mistral serve Mistral's models: it
    resamples with OpenCV without smoothing, so that thin marks may vanish. Providers do not publish
    how they resample. Every tile becomes a view, for inspection: if it were sent to that model, it
    would be split again. Measures `image_tokens`, of all views, and, with marks, `mark_patches`:
    how many patches the longer side of the smallest mark covers; points are not counted. Notes
    report the size at which each view is seen, and what `describe_losses` finds. Raises ValueError
    for a model whose rule is unknown, and for a picture of a size that the stack refuses.
    """

    model: str
    stack: Stack = "transformers"

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        known = find_layout(self.model, (100, 100), self.stack)
        if known is None and find_layout(self.model, (100, 100)):
            raise ValueError(
                f"stack {self.stack!r} does not prepare pictures for {self.model!r}; use it for"
                " Mistral's models such as 'pixtral-12b', or leave out `stack`"
            )
        if known is None:
            raise ValueError(
                f"the image processing of {self.model!r} is unknown; give the name of an open model"
                " such as 'Qwen2.5-VL-7B-Instruct', or one of OpenAI's or Anthropic's"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the views as the model sees them."""
        layouts, marks = _find_layouts(state.views, self.model, self.stack), state.sample.marks
        source = self.imitated_software
        seen, notes = list[View](), list[str]()
        for number, (view, layout) in enumerate(zip(state.views, layouts, strict=True), 1):
            with prefix_errors(state.sample):
                if layout.refusal:
                    raise ValueError(
                        f"{self.stack} refuses a picture of {_format_size(view.size)} pixels for"
                        f" {self.model}: {layout.refusal}; crop it first"
                    )
                tiles = cut_tiles(view, layout)
            seen += tiles
            notes.append(
                f"view {number}: {_format_size(view.size)} pixels are seen as"
                f" {_format_size(layout.size)} in"
                f" {format_count(len(tiles), 'picture')},"
                f" {format_count(layout.tokens, 'token')}, {source}"
            )
        notes += describe_losses(state.views, marks, self.model, self.stack)
        covered = [_measure_marks(state.views, layouts, mark) for mark in marks]
        sizes = [max(sides) for sides in covered if sides and max(sides) < inf]
        state = state.measured("mark_patches", min(sizes)) if sizes else state
        state = state.measured("image_tokens", sum(layout.tokens for layout in layouts))
        return state.replace(views=tuple(seen)).with_notes(*notes)

    @property
    def imitated_software(self) -> str:
        """The software whose processing is imitated."""
        if find_processor(self.model) is None:
            return "by the sizes that its provider publishes"
        return "as mistral-common" if self.stack == "mistral-common" else "as transformers (Pillow)"


def find_layout(model: str, size: Size, stack: Stack = "transformers") -> Layout | None:
    """Return the layout in which a model sees a picture of this size that `stack` prepares; None if
    it is unknown."""
    if rule := find_processor(model, stack):
        return rule(size)
    if stack != "transformers":
        return None
    name = model.rpartition("/")[2].lower()
    for beginning, provider, patch in PROVIDER_RULES:
        if re.match(beginning, name):
            seen = provider.size(*size)
            return Layout(seen, seen, find_image_rule(model).count_tokens(size), patch)
    return None


def cut_tiles(view: View, layout: Layout) -> list[View]:
    """Return the tiles, row by row, and the overview, with their mapping to the source images.
    Raises ValueError for a picture that would be resized to over 100 megapixels."""
    resized = view
    for size in filter(None, (layout.intermediate_size, layout.size)):
        resized = resize_view(resized, size, layout.filter)
    across, down = layout.grid
    width, height = layout.tile
    left, top = layout.offset
    if min(left, top) < 0:
        frame = transforms.crop(resized, -left, -top, width - left, height - top)
    else:
        right = across * width - left - resized.size[0]
        bottom = down * height - top - resized.size[1]
        frame = transforms.pad(resized, left, top, right, bottom, layout.background)
    corners = [(x * width, y * height) for y in range(down) for x in range(across)]
    tiles = [transforms.crop(frame, x, y, x + width, y + height) for x, y in corners]
    if layout.overview:
        whole = resized if layout.intermediate_size else view
        tiles.append(resize_view(whole, layout.overview, layout.filter))
    return tiles


def describe_losses(
    views: Sequence[View], marks: Sequence[Mark], model: str, stack: Stack = "transformers"
) -> Iterator[str]:
    """Yield notes on marks that the model is shown but cannot see, or sees smaller than one patch,
    and on views that add no pixels to another view; none for a model whose rule is unknown."""
    if not (layouts := _find_layouts(views, model, stack)):
        return
    for mark in marks:
        if (sides := _measure_marks(views, layouts, mark)) and max(sides) < 1:
            seen = f"covers {max(sides):.2g} of a patch at most" if max(sides) else "is cut off"
            yield f"mark {mark.label}, as {model} sees it, {seen}"
    scales = list[float]()  # per pixel of the source; enlarging adds none
    for view, layout in zip(views, layouts, strict=True):
        largest = max((part.affine.scale for part in view.parts), default=0.0)
        scales.append(min(1.0, largest * layout.size[0] / view.size[0]))
    regions = [find_source_box(view, Box("", 0, 0, *view.size)) for view in views]
    for number, region in enumerate(regions):
        for larger, whole in enumerate(regions):
            as_large = scales[number] <= scales[larger] * SCALE_TOLERANCE
            if region and whole and as_large and _is_part(region, whole):
                yield (
                    f"view {number + 1} adds no pixels: as {model} sees them, view"
                    f" {larger + 1} shows this region at least as large"
                )
                break


def _find_layouts(views: Sequence[View], model: str, stack: Stack) -> list[Layout]:
    """Return the layout in which the model sees each view; empty if its rule is unknown."""
    layouts = (find_layout(model, view.size, stack) for view in views)
    return [layout for layout in layouts if layout]


def _measure_marks(views: Sequence[View], layouts: Sequence[Layout], mark: Mark) -> list[float]:
    """Return, for each place of a mark in the views, how many patches its longer side covers: 0 if
    the mark is cut off, otherwise infinite for a point or if the patch size is unknown."""
    sides = list[float]()
    for view, layout in zip(views, layouts, strict=True):
        frame = rectangle(
            0, 0, *(n * side for n, side in zip(layout.grid, layout.tile, strict=True))
        )
        factors = (new / old for new, old in zip(layout.size, view.size, strict=True))
        affine = Affine.shift(*layout.offset) @ Affine.resize(*factors)
        for place in view.to_view(mark):
            box = place if isinstance(place, Point) else Box("", *bounding_box(place))
            seen = box.transform(affine, frame)
            if not isinstance(seen, Box) or not layout.patch:
                sides.append(inf if seen else 0.0)
            else:
                sides.append(max(seen.x1 - seen.x0, seen.y1 - seen.y0) / layout.patch)
    return sides


def _is_part(region: Box, whole: Box) -> bool:
    """Return whether a region lies inside another region of its image, and is smaller."""
    inner, outer = np.array(region.xyxy), np.array(whole.xyxy)
    inside = ((inner - outer) * (1, 1, -1, -1) >= -1).all() and whole.image == region.image
    return bool(inside and np.abs(inner - outer).max() > 1)


def _format_size(size: Size) -> str:
    return f"{size[0]:,} x {size[1]:,}"


@dataclass(frozen=True, eq=False)
class Drawing:
    """A view before (`original_view`) and after (`drawn_view`) the stage in `slot` drew on it."""

    slot: str
    original_view: View
    drawn_view: View

    @cached_property
    def changed_mask(self) -> NDArray[np.bool_]:
        """A mask, HxW, of the pixels that the drawing changed."""
        red, green, blue = cv2.split(cv2.absdiff(self.drawn_view.pixels, self.original_view.pixels))
        return cv2.max(cv2.max(red, green), blue) >= MIN_DRAWN_DIFFERENCE

    @property
    def longer_side(self) -> int:
        """The longer side of the largest connected part, in pixels of the view."""
        parts = cv2.connectedComponentsWithStats(
            self.changed_mask.astype(np.uint8), connectivity=8
        )[2]
        return int(parts[1:, 2:4].max(initial=0))

    def shows_same_image(self, sent: View) -> bool:
        """Return whether the first part of both views shows the same source image."""
        drawn, part = self.drawn_view.parts[:1], sent.parts[:1]
        return bool(drawn and part and drawn[0].source == part[0].source)

    def describe_fading(self, sent: View) -> Iterator[str]:
        """Yield a note if the view as it is sent keeps little of the drawing's colour (its
        chroma)."""
        lossy = sent.picture.payload.media_type in ("image/jpeg", "image/webp")
        comparable = lossy and self.shows_same_image(sent) and sent.size == self.drawn_view.size
        if not comparable or not self.changed_mask.any():
            return
        before, drawn, left = (
            cv2.cvtColor(view.pixels, cv2.COLOR_RGB2YCrCb)[self.changed_mask][:, 1:].astype(float)
            for view in (self.original_view, self.drawn_view, sent)
        )
        whole, kept = np.abs(drawn - before).mean(), np.abs(left - before).mean()
        if kept < MIN_CHROMA_SHARE * whole:
            yield (
                f"the drawing of stage {self.slot!r} keeps {kept / whole:.0%} of its colour when"
                " sent; draw thicker lines, or encode with `chroma: 4:4:4`"
            )


def describe_lost_drawings(
    state: State, stages: Mapping[str, Stage], sent: Sequence[View], model: str
) -> Iterator[str]:
    """Yield notes on drawings that the model cannot see in the views that it is sent; `state` is
    the state after these `stages`."""
    for drawing, view in product(find_drawings(state, stages), sent):
        layout = find_layout(model, view.size)
        if drawing.shows_same_image(view) and layout and layout.patch and drawing.longer_side:
            scale = view.parts[0].affine.scale / drawing.drawn_view.parts[0].affine.scale
            scale *= layout.size[0] / view.size[0]
            if (patches := drawing.longer_side * scale / layout.patch) < 1:
                size = f"{patches:.2g} of a patch of {model}"
                yield f"the drawing of stage {drawing.slot!r} covers {size}"
        yield from drawing.describe_fading(view)


def find_drawings(state: State, stages: Mapping[str, Stage]) -> Iterator[Drawing]:
    """Yield each view that a stage changed without changing its size."""
    views = State.start(state.sample).views
    for step in state.trace:
        for before, after in zip(views, step.views, strict=False):
            drew = before.size == after.size and before.picture is not after.picture
            if drew and not getattr(stages.get(step.slot), "encodes", False):
                yield Drawing(step.slot, before, after)
        views = step.views
