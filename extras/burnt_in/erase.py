"""Removes burnt-in markers from images and views, so that they can be marked again or read by
specialists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Mask
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View

INPAINT_RADIUS = 3.0  # radius, in pixels, of the neighbourhood used for inpainting
Region = NDArray[np.bool_]


@dataclass(frozen=True)
class EraseMarks(Ranged, WithoutModel):
    """Paints over the markers that RecoverMarks found, using the pixels around them; the marks
    stay.

    Rings lose their stroke, boxes their lines and labels their plate, each with `margin` more
    pixels around them, where JPEG has smeared them. Every other pixel stays unchanged, including
    the inside of a box and the hole of a ring. The colour of that hole does not show what was under
    the stroke, since JPEG stores colour at half the resolution; with `hole: recolor` the hole keeps
    its brightness and loses its tint as well. The pixels are inpainted (Telea, J. Graphics Tools
    2004). This applies to the sample's images and to all views; images without a marker stay
    unchanged. Raises ValueError for a sample on which RecoverMarks has not run.
    """

    margin: float = 2.0
    hole: Literal["keep", "recolor"] = "keep"

    ranges = ("margin >= 0",)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with clean images and views."""
        sample = state.sample
        if "burnt_in" not in sample.meta:
            raise ValueError(
                f"sample {sample.id}: its images were not searched for burnt-in markers; "
                "put prompting.burnt_in.RecoverMarks before EraseMarks"
            )
        # for each image that has markers, the pixels to paint and the holes of its rings
        hidden: dict[int, Region] = {}
        holes: dict[int, Region] = {}
        for marker in sample.meta["burnt_in"]:
            number = int(marker["image"])
            region, hole = find_marker_regions(
                marker, sample.images[number].pixels.shape, self.margin
            )
            hidden[number] = hidden.get(number, False) | region
            holes[number] = holes.get(number, False) | hole
        clean: dict[int, Picture] = {}
        for number, region in hidden.items():
            image = sample.images[number]
            clean[id(image)] = Picture(self._inpaint(image.pixels, region, holes[number]))
        images = tuple(clean.get(id(image), image) for image in sample.images)
        views = []
        for view in state.views:
            if id(view.picture) in clean:
                view = replace(view, picture=clean[id(view.picture)])
            elif (seen := _project_regions(view, hidden)).any():
                view = view.with_pixels(
                    self._inpaint(view.pixels, seen, _project_regions(view, holes))
                )
            views.append(view)
        return state.replace(sample=replace(sample, images=images), views=tuple(views))

    def _inpaint(self, pixels: Pixels, hidden: Region, tinted: Region) -> Pixels:
        """Return the pixels with the hidden ones inpainted from their surroundings and all others
        unchanged."""
        split = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb), np.uint8)
        stroke, both = (mask.astype(np.uint8) for mask in (hidden, hidden | tinted))
        luma = np.ascontiguousarray(split[..., 0])
        bright = cv2.inpaint(luma, stroke, INPAINT_RADIUS, cv2.INPAINT_TELEA)
        colour = cv2.inpaint(split, both, INPAINT_RADIUS, cv2.INPAINT_TELEA)
        painted = cv2.cvtColor(np.dstack([bright, colour[..., 1:]]), cv2.COLOR_YCrCb2RGB)
        changed = both if self.hole == "recolor" else stroke
        return np.where(changed[..., None], painted, pixels).astype(np.uint8)


def _project_regions(view: View, regions: Mapping[int, Region]) -> Region:
    """Return the pixels of a view that show regions of the sample's images, HxW."""
    seen = np.zeros(view.size[::-1], bool)
    for number, region in regions.items():
        for place in view.to_view(Mask("", region, number)) if region.any() else ():
            seen |= place.pixels if isinstance(place, Mask) else False
    return seen


def find_marker_regions(
    marker: Mapping[str, Any], shape: tuple[int, ...], margin: float
) -> tuple[Region, Region]:
    """Return two masks HxW: the pixels that a marker, as RecoverMarks describes it, hides or
    smears, and the hole of its ring."""
    ys, xs = np.ogrid[: shape[0], : shape[1]]
    half = marker["stroke"] / 2
    hole = np.zeros(shape[:2], bool)
    if marker["kind"] == "arrow":
        region = _draw_arrow_region(marker, shape, margin)
    elif marker["kind"] == "dot":
        away = np.hypot(xs - marker["x"], ys - marker["y"]) - marker["radius"]
        region = away < 0.5 + margin
    elif marker["kind"] == "ring":
        away = np.hypot(xs - marker["x"], ys - marker["y"]) - marker["radius"]
        hole = np.asarray(away <= -half - 0.5, bool)
        region = away < half + 0.5 + margin
    else:
        across = np.minimum(xs + 0.5 - marker["x0"], marker["x1"] - xs - 0.5)
        down = np.minimum(ys + 0.5 - marker["y0"], marker["y1"] - ys - 0.5)
        # distance inwards from the middle of the lines
        inward = np.minimum(across, down)
        region = (inward > -half - margin) & (inward < half + margin)
    if marker["plate"]:
        left, top, right, bottom = marker["plate"]
        level = (ys >= top - margin) & (ys < bottom + margin)
        region = region | (level & (xs >= left - margin) & (xs < right + margin))
    return np.asarray(region & ~hole, bool), hole


def _draw_arrow_region(marker: Mapping[str, Any], shape: tuple[int, ...], margin: float) -> Region:
    """Return the pixels of an arrow and `margin` pixels around it, HxW."""
    canvas = np.zeros(shape[:2], np.uint8)
    corners = np.rint(np.asarray(marker["outline"])).astype(np.int32)
    cv2.fillPoly(canvas, [corners], 1)
    reach = int(np.ceil(marker["stroke"] / 2 + margin))
    grown = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    return np.asarray(cv2.dilate(canvas, grown), bool)
