"""Tools that apply a stage to the image that the model names, most of them with a specialist: crops
of named objects and of faces, depth, segments and matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from looktwice.extras.shown_results.overlays import DepthOverlay, MatchOverlay
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.agent.tool import (
    Arguments,
    ImageArguments,
    ImageNumber,
    ToolResult,
    run_stage,
)
from looktwice.prompting.coordinates import ToolError
from looktwice.prompting.markers.set_of_mark import SetOfMark
from looktwice.prompting.views.crop import Crop
from looktwice.prompting.views.zoom import ZoomOnDetections
from looktwice.specialists.protocols import DepthEstimator, Detector, Matcher, Segmenter

WORD_CROP = Crop(padding=0.1, min_px=32, upscale=512, most=4)


class SearchArguments(ImageArguments):
    """An object to look for in one of the images."""

    word: str = Field(min_length=1, max_length=80, description="what to look for, in a word or two")


class PairArguments(Arguments):
    """Two of the images."""

    first: ImageNumber = Field(1, description="number of the first image, from 1")
    second: ImageNumber = Field(2, description="number of the second image, from 1")


class _StageTool:
    """A tool that applies a stage, often one with a specialist, to the image that the model names.

    Specialists in the stage see the sample's own image from which the named image was made.
    """

    arguments: type[ImageArguments] = ImageArguments

    def get_stage(self, arguments: Any) -> Stage:
        """Return the stage to apply."""
        raise NotImplementedError

    def __call__(self, state: State, arguments: Any) -> ToolResult:
        """Return the result of the stage. Raises ToolError; exceptions of the stage are passed
        on."""
        return run_stage(self.get_stage(arguments), state, state.views[arguments.image - 1])


@dataclass(frozen=True)
class ApplyStage(_StageTool):
    """Any stage as a tool, applied to the image that the model names; `description` is sent to the
    model."""

    stage: Stage
    description: str

    def get_stage(self, arguments: Any) -> Stage:
        return self.stage


@dataclass(frozen=True)
class CropByWord(_StageTool):
    """Zooms on detections of the word that the model gives, with
    `prompting.views.ZoomOnDetections`; `detector` must accept words.

    Detections with a score below `min_score` are left out; null keeps all.
    """

    detector: Detector
    description: str = (
        "Looks for a thing by its name and shows each one that is found larger, as an image of its"
        " own."
    )
    min_score: float | None = None
    crop: Crop = WORD_CROP

    arguments = SearchArguments

    def get_stage(self, arguments: SearchArguments) -> Stage:
        words = (arguments.word.strip() or "?",)
        return ZoomOnDetections(self.detector, words, min_score=self.min_score, crop=self.crop)


@dataclass(frozen=True)
class ZoomOnFaces(_StageTool):
    """Zooms on the detections of a detector that needs no words, such as `FaceCascade`, with
    `prompting.views.ZoomOnDetections`."""

    detector: Detector
    description: str = "Looks for faces and shows each one larger, as an image of its own."
    crop: Crop = WORD_CROP

    def get_stage(self, arguments: Any) -> Stage:
        return ZoomOnDetections(self.detector, crop=self.crop)


@dataclass(frozen=True)
class ShowDepth(_StageTool):
    """Shows the depth of the image that the model names, with `prompting.markers.DepthOverlay`."""

    depth: DepthEstimator
    description: str = (
        "Shows how near everything in an image is to the camera: the brighter the nearer."
    )

    def get_stage(self, arguments: Any) -> Stage:
        return DepthOverlay(depth=self.depth, layout="only")


@dataclass(frozen=True)
class ShowSegments(_StageTool):
    """Numbers at most `most` regions of the image that the model names, with
    `prompting.markers.SetOfMark`."""

    segmenter: Segmenter
    description: str = "Shows an image with its regions outlined and numbered."
    most: int = 20

    def get_stage(self, arguments: Any) -> Stage:
        return SetOfMark(self.segmenter, most=self.most)


@dataclass(frozen=True)
class ShowMatches:
    """Joins matching points of two images of the sample, with `prompting.markers.MatchOverlay`."""

    matcher: Matcher
    description: str = (
        "Puts two images side by side and joins the places that show the same spot by lines."
    )

    arguments = PairArguments

    def __call__(self, state: State, arguments: PairArguments) -> ToolResult:
        """Return the two images, with lines between matching points. Raises ToolError, and
        ValueError if nothing matches."""
        views = state.views[arguments.first - 1], state.views[arguments.second - 1]
        shown = [{part.source for part in view.parts} for view in views]
        if any(len(sources) != 1 for sources in shown) or shown[0] == shown[1]:
            raise ToolError(
                f"images {arguments.first} and {arguments.second} do not show two different images"
            )
        overlay = MatchOverlay(self.matcher, images=(min(shown[0]), min(shown[1])))
        return run_stage(overlay, state, *views)
