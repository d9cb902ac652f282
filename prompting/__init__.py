"""What is drawn, cropped, said and asked: the stages between a sample and a model's reply."""

from looktwice.prompting.axes import Axes
from looktwice.prompting.chosen import ChosenMark
from looktwice.prompting.codec import Encode
from looktwice.prompting.controls import BlankImage, NoImage, OtherImage, RandomMarks
from looktwice.prompting.crops import Crop
from looktwice.prompting.erase import EraseMarks
from looktwice.prompting.grid_words import GridWords
from looktwice.prompting.grids import DotGrid, RuledGrid
from looktwice.prompting.labels import Label
from looktwice.prompting.layout import Concatenate, IndexTags, Reorder
from looktwice.prompting.markers import Arrows, Circles, Crosshairs, Dots
from looktwice.prompting.oracle import OracleCrop, RandomCrop
from looktwice.prompting.overlays import DepthOverlay, MatchOverlay, ScalarOverlay, SegmentTint
from looktwice.prompting.permute import PermuteChoices, PermuteLabels
from looktwice.prompting.presets import BlinkPaper, BlinkReleased, Som, Vlm2
from looktwice.prompting.recover import RecoverMarks
from looktwice.prompting.regions import Contours, Cover, Rectangles, Spotlight, Tint
from looktwice.prompting.resize import (
    ClaudePatches,
    FixedHeight,
    LongestSide,
    Megapixels,
    OpenAIPatches,
    OpenAITiles,
    QwenPatches,
)
from looktwice.prompting.setofmark import SetOfMark
from looktwice.prompting.turns import Ask
from looktwice.prompting.wording import ChainOfThought, MarksAsText, MultipleChoice, Verbatim
from looktwice.prompting.zoom import ZoomOnCells, ZoomOnDetections, ZoomOnMarks

__all__ = [
    "Arrows",
    "Ask",
    "Axes",
    "BlankImage",
    "BlinkPaper",
    "BlinkReleased",
    "ChainOfThought",
    "ChosenMark",
    "Circles",
    "ClaudePatches",
    "Concatenate",
    "Contours",
    "Cover",
    "Crop",
    "Crosshairs",
    "DepthOverlay",
    "DotGrid",
    "Dots",
    "Encode",
    "EraseMarks",
    "FixedHeight",
    "GridWords",
    "IndexTags",
    "Label",
    "LongestSide",
    "MarksAsText",
    "MatchOverlay",
    "Megapixels",
    "MultipleChoice",
    "NoImage",
    "OpenAIPatches",
    "OpenAITiles",
    "OracleCrop",
    "OtherImage",
    "PermuteChoices",
    "PermuteLabels",
    "QwenPatches",
    "RandomCrop",
    "RandomMarks",
    "RecoverMarks",
    "Rectangles",
    "Reorder",
    "RuledGrid",
    "ScalarOverlay",
    "SegmentTint",
    "SetOfMark",
    "Som",
    "Spotlight",
    "Tint",
    "Verbatim",
    "Vlm2",
    "ZoomOnCells",
    "ZoomOnDetections",
    "ZoomOnMarks",
]
