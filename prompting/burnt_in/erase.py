"""Removes burnt-in markers from images and views, so that they can be marked anew or read by
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
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.ranges import check_ranges

REACH = 3.0  # pixels of the neighbourhood that a hidden pixel is made up from
Region = NDArray[np.bool_]


@dataclass(frozen=True)
class EraseMarks(WithoutModel):
    """Paints over the markers that RecoverMarks found, from what surrounds them; its marks stay.

    Rings lose their stroke, boxes their lines, labels their plate, each with `margin` more pixels
    around them, where JPEG has smeared them. Every other pixel stays as it was, the inside of a box
    and the hole inside a ring too. The colour of that hole is no guide to what was under the
    stroke, since JPEG stores colour at half the resolution; with `hole: recolor` the hole keeps its
    brightness alone and loses its tint as well. The pixels are inpainted (Telea, J. Graphics Tools
    2004). The sample's images and every view are treated alike; what shows no marker is passed on
    as it is. Raises ValueError for a sample on which RecoverMarks has not run.
    """

    margin: float = 2.0
    hole: Literal["keep", "recolor"] = "keep"

    def __post_init__(self) -> None:
        check_ranges(self, "margin >= 0")

    def __call__(self, state: State, model: Model) -> State:
        """The state with clean images and views."""
        regions_of = self._marker_regions(state.sample)
        clean = {
            id(state.sample.images[number]): Picture(
                self._inpaint(state.sample.images[number].pixels, *regions)
            )
            for number, regions in regions_of.items()
        }
        images = tuple(clean.get(id(image), image) for image in state.sample.images)
        views = tuple(self._clean_view(view, clean, regions_of) for view in state.views)
        return state.replace(sample=replace(state.sample, images=images), views=views)

    def _marker_regions(self, sample: Sample) -> dict[int, tuple[Region, Region]]:
        """For each image that has markers, the pixels to paint and those whose colour is not to be
        trusted."""
        if "burnt_in" not in sample.meta:
            raise ValueError(
                f"sample {sample.id}: its images were not searched for burnt-in markers; "
                "put prompting.burnt_in.RecoverMarks before EraseMarks"
            )
        regions: dict[int, tuple[Region, Region]] = {}
        for marker in sample.meta["burnt_in"]:
            number = int(marker["image"])
            width, height = sample.images[number].size
            hidden, tinted = regions.get(number) or (
                np.zeros((height, width), bool),
                np.zeros((height, width), bool),
            )
            region, hole = marker_regions(marker, (height, width), self.margin)
            regions[number] = hidden | region, tinted | hole
        return regions

    def _clean_view(
        self,
        view: View,
        clean: Mapping[int, Picture],
        regions_of: Mapping[int, tuple[Region, Region]],
    ) -> View:
        """The view without markers; one that shows an image as it is gets that image's clean
        picture."""
        if id(view.picture) in clean:
            return replace(view, picture=clean[id(view.picture)])
        hidden = _project_regions(
            view, {number: region for number, (region, _) in regions_of.items()}
        )
        tinted = _project_regions(view, {number: hole for number, (_, hole) in regions_of.items()})
        return (
            view.with_pixels(self._inpaint(view.pixels, hidden, tinted)) if hidden.any() else view
        )

    def _inpaint(self, pixels: Pixels, hidden: Region, tinted: Region) -> Pixels:
        """The pixels, the hidden ones made up from their surroundings and all others as they
        were."""
        split = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb), np.uint8)
        brightness = cv2.inpaint(
            np.ascontiguousarray(split[..., 0]), hidden.astype(np.uint8), REACH, cv2.INPAINT_TELEA
        )
        colour = cv2.inpaint(split, (hidden | tinted).astype(np.uint8), REACH, cv2.INPAINT_TELEA)
        painted = cv2.cvtColor(np.dstack([brightness, colour[..., 1:]]), cv2.COLOR_YCrCb2RGB)
        changed = hidden | tinted if self.hole == "recolor" else hidden
        return np.where(changed[..., None], painted, pixels).astype(np.uint8)


def _project_regions(view: View, regions: Mapping[int, Region]) -> Region:
    """Where regions of the sample's images are seen in a view, HxW."""
    masks = [Mask("", region, number) for number, region in regions.items() if region.any()]
    places = [
        place.pixels for mask in masks for place in view.to_view(mask) if isinstance(place, Mask)
    ]
    return np.asarray(np.logical_or.reduce([np.zeros(view.size[::-1], bool), *places]), bool)


def marker_regions(
    marker: Mapping[str, Any], shape: tuple[int, int], margin: float
) -> tuple[Region, Region]:
    """What a marker, as RecoverMarks describes it, hides or has smeared, and the hole of its ring;
    both HxW."""
    ys, xs = np.ogrid[: shape[0], : shape[1]]
    half = marker["stroke"] / 2
    hole = np.zeros(shape, bool)
    if marker["kind"] == "ring":
        distance = np.hypot(xs - marker["x"], ys - marker["y"])
        region = distance < marker["radius"] + half + 0.5 + margin
        hole = np.asarray(distance <= marker["radius"] - half - 0.5, bool)
    else:
        sides = [
            xs + 0.5 - marker["x0"],
            marker["x1"] - xs - 0.5,
            ys + 0.5 - marker["y0"],
            marker["y1"] - ys - 0.5,
        ]
        # pixels inside the middle of the lines
        inward = np.minimum.reduce(np.broadcast_arrays(*sides))
        region = (inward > -half - margin) & (inward < half + margin)
    if marker["plate"]:
        left, top, right, bottom = marker["plate"]
        level = (ys >= top - margin) & (ys < bottom + margin)
        region = region | (level & (xs >= left - margin) & (xs < right + margin))
    return np.asarray(region & ~hole, bool), hole
