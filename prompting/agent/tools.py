"""The agent's tools: zoom, magnify, draw, grid, rotate, contrast, measure, undo and answer; and an
oracle zoom. Tools that apply a specialist or any other stage belong to an extension."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import cv2
import numpy as np
from pydantic import Field

from looktwice.pipelines import transforms
from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.agent.tool import (
    Arguments,
    BoxArguments,
    ImageArguments,
    PointArguments,
    PointCoordinates,
    ToolResult,
    run_stage,
    run_stage_on_image,
)
from looktwice.prompting.controls.images import MAX_CANDIDATES, OracleCrop
from looktwice.prompting.coordinates import ToolError
from looktwice.prompting.grids.grids import RuledGrid
from looktwice.prompting.markers.points import Circles
from looktwice.prompting.markers.regions import Rectangles
from looktwice.prompting.views.crop import Crop
from looktwice.prompting.views.zoom import ZoomOnMarks

ASKED_PLACE_LABEL = "asked"
DEFAULT_CROP = Crop(padding=0, min_px=16, upscale=512)
CLAHE_TILES_PER_SIDE = 8  # along each side
MAX_MEGAPIXELS = 32.0  # limit for a rotated image, which grows with every rotation
MAX_ANSWER_CHARACTERS = 4000


LABEL_ARGUMENT = Field("", max_length=40, description="a short name to write beside it")


class MagnifyArguments(PointArguments):
    """A point, and the factor by which its surroundings are enlarged."""

    factor: float = Field(
        2.0, gt=1, le=16, description="how many times larger, more than 1 and at most 16"
    )


class DrawBoxArguments(BoxArguments):
    """A box with a name."""

    label: str = LABEL_ARGUMENT


class DrawPointArguments(PointArguments):
    """A point with a name."""

    label: str = LABEL_ARGUMENT


class RotateArguments(ImageArguments):
    """An image and an angle."""

    degrees: float = Field(90.0, ge=-360, le=360, description="counter-clockwise, in degrees")


class ContrastArguments(ImageArguments):
    """An image and the strength of the contrast enhancement."""

    strength: float = Field(
        3.0, gt=0, le=40, description="1 is hardly any, 3 is clear, 10 is strong"
    )


class MeasureArguments(ImageArguments):
    """Two points of one image."""

    start: PointCoordinates = Field(description="x and y of the first point, in {unit}")
    end: PointCoordinates = Field(description="x and y of the second point, in {unit}")


class AnswerArguments(Arguments):
    """The text of the answer."""

    text: str = Field(
        max_length=MAX_ANSWER_CHARACTERS, description="the answer to the question, and nothing else"
    )


@dataclass(frozen=True)
class Zoom:
    """Zooms in on the box that the model names, as `prompting.views.ZoomOnMarks` does; `crop` sets
    how it is cropped.

    With `elsewhere` the tool becomes a placebo, like `prompting.controls.OracleCrop` with
    `elsewhere`: it shows a crop of the same size, at whichever of `tries` random places overlaps
    the box least. `tries: 1` draws uniformly from all places where it fits. The model gets the same
    `description`; another `seed` draws other places.
    """

    description: str = "Shows a part of an image larger, as an image of its own."
    crop: Crop = DEFAULT_CROP
    elsewhere: bool = False
    tries: int = MAX_CANDIDATES
    seed: int = 0

    arguments: ClassVar[type[BoxArguments]] = BoxArguments

    def __call__(self, state: State, arguments: BoxArguments) -> ToolResult:
        """Return the crop. Raises ToolError."""
        view, box = state.views[arguments.image - 1], Box(ASKED_PLACE_LABEL, *arguments.box)
        if self.elsewhere:
            seed = self.seed + len(state.views)
            placebo = OracleCrop(
                ASKED_PLACE_LABEL, crop=self.crop, elsewhere=True, tries=self.tries, seed=seed
            )
            # without the note, which would reveal the position
            return ToolResult("", run_stage_on_image(placebo, state, view, box).views)
        return run_stage_on_image(ZoomOnMarks(crop=self.crop), state, view, box)


@dataclass(frozen=True)
class Magnify:
    """Zooms in on a point by a factor: crops around it with the view's proportions, and enlarges
    the crop to the size of the view."""

    description: str = (
        "Shows what lies around a point several times larger, as an image of its own."
    )

    arguments = MagnifyArguments

    def __call__(self, state: State, arguments: MagnifyArguments) -> ToolResult:
        """Return the crop. Raises ToolError."""
        view = state.views[arguments.image - 1]
        half = np.array(view.size) / arguments.factor / 2
        middle = np.clip(np.array(arguments.point) + 0.5, half, view.size - half)
        box = Box(ASKED_PLACE_LABEL, *(middle - half).tolist(), *(middle + half).tolist())
        zoom = ZoomOnMarks(crop=Crop(padding=0, min_px=0, upscale=max(view.size)))
        return run_stage_on_image(zoom, state, view, box)


@dataclass(frozen=True)
class DrawBox:
    """Uses `marker`, such as `prompting.markers.Rectangles`, to draw the box that the model
    names."""

    description: str = "Draws a box on a copy of an image, with a name if one is given."
    marker: Stage = field(default_factory=Rectangles)

    arguments = DrawBoxArguments

    def __call__(self, state: State, arguments: DrawBoxArguments) -> ToolResult:
        """Return the image with the box. Raises ToolError, and ValueError if the label does not
        fit."""
        box = Box(arguments.label, *arguments.box)
        return run_stage_on_image(self.marker, state, state.views[arguments.image - 1], box)


@dataclass(frozen=True)
class DrawPoint:
    """Uses `marker`, such as `prompting.markers.Circles`, to draw the point that the model
    names."""

    description: str = (
        "Draws a mark around a point on a copy of an image, with a name if one is given."
    )
    marker: Stage = field(default_factory=Circles)

    arguments = DrawPointArguments

    def __call__(self, state: State, arguments: DrawPointArguments) -> ToolResult:
        """Return the image with the mark. Raises ToolError, and ValueError if the label does not
        fit."""
        point = Point(arguments.label, *arguments.point)
        return run_stage_on_image(self.marker, state, state.views[arguments.image - 1], point)


@dataclass(frozen=True)
class ShowGrid:
    """Shows an image with a grid over it; `grid` is any stage of `prompting.grids`."""

    description: str = "Shows an image with a grid of named cells over it, to tell places apart."
    grid: Stage = field(default_factory=RuledGrid)

    arguments = ImageArguments

    def __call__(self, state: State, arguments: ImageArguments) -> ToolResult:
        """Return the image with the grid. Raises ValueError if it does not fit."""
        return run_stage_on_image(self.grid, state, state.views[arguments.image - 1])


@dataclass(frozen=True)
class Rotate:
    """Rotates an image about its centre, and enlarges the canvas so that nothing is cut off."""

    description: str = "Shows an image turned counter-clockwise."

    arguments = RotateArguments

    def __call__(self, state: State, arguments: RotateArguments) -> ToolResult:
        """Return the rotated image. Raises ToolError for full turns and for a result that would be
        too large."""
        view, degrees = state.views[arguments.image - 1], arguments.degrees
        turned = f"turned by {degrees:g} degrees"
        if degrees % 360 == 0:
            raise ToolError(f"{turned} the image would stay as it is")
        width, height = transforms.compute_rotated_size(view.size, degrees)
        if degrees % 90 and width * height > MAX_MEGAPIXELS * 1e6:
            raise ToolError(
                f"{turned} image {arguments.image} would be too large; turn an earlier image, or a"
                " part of it"
            )
        return ToolResult(turned, (transforms.rotate(view, degrees),))


@dataclass(frozen=True)
class Contrast:
    """Raises local contrast by adaptive histogram equalisation of the lightness (CLAHE, Zuiderveld
    1994)."""

    description: str = (
        "Shows an image with more contrast, for what is too dark, too bright or too faint."
    )

    arguments = ContrastArguments

    def __call__(self, state: State, arguments: ContrastArguments) -> ToolResult:
        """Return the image with more contrast; hue and saturation are unchanged."""
        view = state.views[arguments.image - 1]
        lab = cv2.cvtColor(view.pixels, cv2.COLOR_RGB2LAB)
        clahe = cv2.createCLAHE(arguments.strength, (CLAHE_TILES_PER_SIDE, CLAHE_TILES_PER_SIDE))
        lab[..., 0] = clahe.apply(np.ascontiguousarray(lab[..., 0]))
        pixels = np.asarray(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB), np.uint8)
        return ToolResult("", (view.with_pixels(pixels),))


@dataclass(frozen=True)
class Measure:
    """Tells the model the distance between two points of an image and the direction from one to the
    other.

    Distances are in pixels of the image at full size and in percent of its width, so that they can
    be compared between images.
    """

    description: str = (
        "Measures the distance between two points of an image and the direction from one to the"
        " other."
    )

    arguments = MeasureArguments

    def __call__(self, state: State, arguments: MeasureArguments) -> ToolResult:
        """Return the distance and the direction as text."""
        (x0, y0), (x1, y1) = arguments.start, arguments.end
        length, angle = math.hypot(x1 - x0, y1 - y0), math.degrees(math.atan2(y0 - y1, x1 - x0))
        width = state.views[arguments.image - 1].size[0]
        return ToolResult(
            f"{length:.1f} pixels, {100 * length / width:.1f} % of the width of image"
            f" {arguments.image}; direction {angle % 360:.1f} degrees (0 is to the right, 90 is up)"
        )


@dataclass(frozen=True)
class Undo:
    """Takes back the last image that a tool showed; neither the model nor the tools see it
    again."""

    description: str = "Takes back the last image that a tool showed."

    arguments = Arguments

    def __call__(self, state: State, arguments: Arguments) -> ToolResult:
        """Return a request to the agent to take back the image."""
        return ToolResult(undo=True)


@dataclass(frozen=True)
class Answer:
    """Ends the run with an answer, which the agent's `reader` reads."""

    description: str = "Gives the final answer to the question and ends the looking."

    arguments = AnswerArguments

    def __call__(self, state: State, arguments: AnswerArguments) -> ToolResult:
        """Return the answer."""
        return ToolResult(answer=arguments.text)


DEFAULT_ZOOM = Zoom()


@dataclass(frozen=True)
class OracleZoom:
    """An oracle for `Zoom`, which always shows the region needed to answer, whichever box the model
    names.

    It applies `prompting.controls.OracleCrop` by `label` or `hint` to the image that the model
    names or, if that image does not show the region, to the first one that does.
    """

    description: str = DEFAULT_ZOOM.description
    label: str = ""
    hint: str = "region"
    crop: Crop = DEFAULT_ZOOM.crop

    arguments = BoxArguments

    def __call__(self, state: State, arguments: BoxArguments) -> ToolResult:
        """Return the crop, without the note that says where it is. Raises ValueError if no image
        shows the region."""
        oracle = OracleCrop(self.label, self.hint, self.crop)
        asked = state.views[arguments.image - 1]
        places = oracle.project_region(state.replace(views=(asked, *state.views)))
        view = (asked, *state.views)[min(places)]
        return ToolResult("", run_stage(oracle, state, view).views)
