"""Tools that use a specialist or any other stage, and the oracle of the zoom."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from looktwice.pipelines.state import Stage, State
from looktwice.prompting.agent.tool import (
    Arguments,
    BoxArguments,
    ImageArguments,
    ImageNumber,
    ToolResult,
    run_stage,
)
from looktwice.prompting.agent.tools import Zoom
from looktwice.prompting.controls.crops import OracleCrop
from looktwice.prompting.coordinates import ToolError
from looktwice.prompting.markers.overlays import DepthOverlay, MatchOverlay
from looktwice.prompting.markers.set_of_mark import SetOfMark
from looktwice.prompting.views.crop import Crop
from looktwice.prompting.views.zoom import ZoomOnDetections
from looktwice.specialists.protocols import DepthEstimator, Detector, Matcher, Segmenter

ZOOM_CONTROL = Zoom()


@dataclass(frozen=True)
class OracleZoom:
    """Oracle of `Zoom`: always the region that matters, whatever box the model names.

    It is `prompting.controls.OracleCrop` by `label` or `hint`, on the image that the model names
    or, if that does not show the region, on the first one that does.
    """

    description: str = ZOOM_CONTROL.description
    label: str = ""
    hint: str = "region"
    crop: Crop = ZOOM_CONTROL.crop

    arguments = BoxArguments

    def __call__(self, state: State, arguments: BoxArguments) -> ToolResult:
        """The crop, without a note that says where it is. Raises ValueError if no image shows the
        region."""
        oracle = OracleCrop(self.label, self.hint, self.crop)
        asked = state.views[arguments.image - 1]
        places = oracle.places(state.replace(views=(asked, *state.views)))
        view = (asked, *state.views)[min(places)]
        return ToolResult("", run_stage(oracle, state, view).views)


WORD_CROP = Crop(padding=0.1, min_px=32, upscale=512, most=4)


class SearchArguments(ImageArguments):
    """A thing to look for in one of the images."""

    word: str = Field(min_length=1, max_length=80, description="what to look for, in a word or two")


class PairArguments(Arguments):
    """Two of the images."""

    first: ImageNumber = Field(1, description="number of the first image, from 1")
    second: ImageNumber = Field(2, description="number of the second image, from 1")


@dataclass(frozen=True)
class ApplyStage:
    """Any stage as a tool, applied to the image that the model names; `description` describes it to
    the model.

    Specialists in the stage see the sample's own image from which that one was made.
    """

    stage: Stage
    description: str

    arguments = ImageArguments

    def __call__(self, state: State, arguments: ImageArguments) -> ToolResult:
        """The result of the stage. Raises ToolError, and what the stage raises."""
        return run_stage(self.stage, state, state.views[arguments.image - 1])


@dataclass(frozen=True)
class CropByWord:
    """`prompting.views.ZoomOnDetections` with the word that the model names; `detector` must take
    words.

    What it finds with a score below `min_score` is left out; null keeps all.
    """

    detector: Detector
    description: str = (
        "Looks for a thing by its name and shows each one that is found larger, as an image of its"
        " own."
    )
    min_score: float | None = None
    crop: Crop = WORD_CROP

    arguments = SearchArguments

    def __call__(self, state: State, arguments: SearchArguments) -> ToolResult:
        """The crops. Raises ToolError if nothing is found."""
        zoom = ZoomOnDetections(
            self.detector,
            (arguments.word.strip() or "?",),
            min_score=self.min_score,
            crop=self.crop,
        )
        return run_stage(zoom, state, state.views[arguments.image - 1])


@dataclass(frozen=True)
class ZoomOnFaces:
    """`prompting.views.ZoomOnDetections` with a detector that needs no words, such as
    `FaceCascade`."""

    detector: Detector
    description: str = "Looks for faces and shows each one larger, as an image of its own."
    crop: Crop = WORD_CROP

    arguments = ImageArguments

    def __call__(self, state: State, arguments: ImageArguments) -> ToolResult:
        """The crops. Raises ToolError if there is no face."""
        return run_stage(
            ZoomOnDetections(self.detector, crop=self.crop), state, state.views[arguments.image - 1]
        )


@dataclass(frozen=True)
class ShowDepth:
    """`prompting.markers.DepthOverlay` on the image that the model names."""

    depth: DepthEstimator
    description: str = (
        "Shows how near everything in an image is to the camera: the brighter the nearer."
    )

    arguments = ImageArguments

    def __call__(self, state: State, arguments: ImageArguments) -> ToolResult:
        """The depth map. Raises ValueError if there is none."""
        view = state.views[arguments.image - 1]
        sources = tuple(sorted({part.source for part in view.parts}))
        return run_stage(DepthOverlay(depth=self.depth, layout="only", images=sources), state, view)


@dataclass(frozen=True)
class ShowSegments:
    """`prompting.markers.SetOfMark` on the image that the model names: every region with a number,
    `most` at most."""

    segmenter: Segmenter
    description: str = "Shows an image with its regions outlined and numbered."
    most: int = 20

    arguments = ImageArguments

    def __call__(self, state: State, arguments: ImageArguments) -> ToolResult:
        """The image with its regions. Raises ValueError if there are none."""
        return run_stage(
            SetOfMark(self.segmenter, most=self.most), state, state.views[arguments.image - 1]
        )


@dataclass(frozen=True)
class ShowMatches:
    """`prompting.markers.MatchOverlay` on two images of the sample."""

    matcher: Matcher
    description: str = (
        "Lays two images beside one another and joins the places that show the same spot by lines."
    )

    arguments = PairArguments

    def __call__(self, state: State, arguments: PairArguments) -> ToolResult:
        """The two images, with lines between matching points. Raises ToolError, and ValueError if
        nothing matches."""
        views = state.views[arguments.first - 1], state.views[arguments.second - 1]
        shown = [{part.source for part in view.parts} for view in views]
        if any(len(sources) != 1 for sources in shown) or shown[0] == shown[1]:
            raise ToolError(
                f"images {arguments.first} and {arguments.second} do not show two different images"
            )
        return run_stage(
            MatchOverlay(self.matcher, images=(min(shown[0]), min(shown[1]))), state, *views
        )
