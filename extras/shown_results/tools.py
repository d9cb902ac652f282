"""Tools that compare two points or regions of an image by their depth or their colour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from pydantic import Field

from looktwice.extras.shown_results.words import DepthWords
from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.state import State
from looktwice.prompting.agent.tool import (
    BoxCoordinates,
    ImageArguments,
    ToolResult,
    run_stage,
    run_stage_on_image,
)
from looktwice.prompting.agent.tools import DEFAULT_CROP, MeasureArguments
from looktwice.prompting.coordinates import ToolError
from looktwice.prompting.views.crop import Crop
from looktwice.prompting.views.zoom import ZoomOnMarks
from looktwice.specialists.protocols import DepthEstimator


class RegionsArguments(ImageArguments):
    """Two boxes of one image."""

    first: BoxCoordinates = Field(description="left, top, right and bottom of a box, in {unit}")
    second: BoxCoordinates = Field(description="the same of another box, in {unit}")


@dataclass(frozen=True)
class TellNearer:
    """Describes the depth of the two points that the model names, with
    `prompting.telling.DepthWords`."""

    depth: DepthEstimator
    description: str = "Says which of two points of an image is nearer to the camera."

    arguments = MeasureArguments

    def __call__(self, state: State, arguments: MeasureArguments) -> ToolResult:
        """Return depth ranks and nearness in words. Raises ToolError, NoEvidence and
        WeightsError."""
        view, points = state.views[arguments.image - 1], list[Point]()
        for label, (x, y) in (("start", arguments.start), ("end", arguments.end)):
            if (place := view.to_source(x, y)) is None:
                raise ToolError(f"at the {label} point image {arguments.image} shows no picture")
            number, *at = place
            points.append(Point(label, at[0], at[1], number))
        marked = state.replace(sample=replace(state.sample, marks=tuple(points)))
        return run_stage(DepthWords(depth=self.depth), marked, view)


@dataclass(frozen=True)
class CompareRegions:
    """Shows two parts of an image, enlarged, and states the difference of their mean colours
    (CIEDE2000). `crop` sets how they are cropped."""

    description: str = (
        "Shows two parts of an image larger, and says how their colour and lightness differ."
    )
    crop: Crop = DEFAULT_CROP

    arguments = RegionsArguments

    def __call__(self, state: State, arguments: RegionsArguments) -> ToolResult:
        """Return both crops, and their colours in words. Raises ToolError."""
        from skimage.color import deltaE_ciede2000, rgb2lab

        view, labs, colours = state.views[arguments.image - 1], list[Any](), list[str]()
        boxes = [Box("first", *arguments.first), Box("second", *arguments.second)]
        for box in boxes:
            left, top, right, bottom = np.array(box.xyxy).astype(int)
            part = view.pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
            mean = part.reshape(-1, 3).mean(axis=0)
            labs.append(cast("Any", rgb2lab)(mean / 255))
            red, green, blue = mean.round().astype(int)
            colours.append(
                f"the {box.label} is #{red:02x}{green:02x}{blue:02x} on the mean, lightness"
                f" {labs[-1][0]:.0f} of 100"
            )
        apart = float(cast("Any", deltaE_ciede2000)(*labs))
        shown = run_stage_on_image(ZoomOnMarks(crop=self.crop), state, view, *boxes)
        words = f"{'; '.join(colours)}; they differ by {apart:.1f}, of which 2 are just seen"
        return ToolResult(words, shown.views)
