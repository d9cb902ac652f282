"""What is drawn, cropped, said and asked: the stages between a sample and a model's reply."""

from looktwice.prompting.agent import Agent
from looktwice.prompting.axes import Axes
from looktwice.prompting.captions import CaptionThenAnswer
from looktwice.prompting.chosen import ChosenMark
from looktwice.prompting.codec import Encode
from looktwice.prompting.controls import BlankImage, NoImage, OtherImage, RandomMarks
from looktwice.prompting.crops import Crop
from looktwice.prompting.erase import EraseMarks
from looktwice.prompting.examples import FewShot
from looktwice.prompting.grid_words import GridWords
from looktwice.prompting.grids import DotGrid, RuledGrid
from looktwice.prompting.history import History
from looktwice.prompting.labels import Label
from looktwice.prompting.layout import Concatenate, IndexTags, Reorder
from looktwice.prompting.markers import Arrows, Circles, Crosshairs, Dots
from looktwice.prompting.oracle import OracleCrop, RandomCrop
from looktwice.prompting.outputs import AnswerLine, JsonAnswer
from looktwice.prompting.overlays import DepthOverlay, MatchOverlay, ScalarOverlay, SegmentTint
from looktwice.prompting.permute import PermuteChoices, PermuteLabels
from looktwice.prompting.presets import BlinkPaper, BlinkReleased, Som, Vlm2
from looktwice.prompting.recover import RecoverMarks
from looktwice.prompting.redraw import RedrawThenAnswer
from looktwice.prompting.regions import Contours, Cover, Rectangles, Spotlight, Tint
from looktwice.prompting.reperceive import Reperceive
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
from looktwice.prompting.template import Template
from looktwice.prompting.turns import Ask
from looktwice.prompting.verify import Verify, ZoomOnClaim
from looktwice.prompting.votes import Vote
from looktwice.prompting.wording import (
    ChainOfThought,
    Letters,
    MarksAsText,
    MultipleChoice,
    System,
    Verbatim,
    WholeNumber,
    YesNo,
)
from looktwice.prompting.zoom import ZoomOnCells, ZoomOnDetections, ZoomOnMarks

__all__ = [
    "Agent",
    "AnswerLine",
    "Arrows",
    "Ask",
    "Axes",
    "BlankImage",
    "BlinkPaper",
    "BlinkReleased",
    "CaptionThenAnswer",
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
    "FewShot",
    "FixedHeight",
    "GridWords",
    "History",
    "IndexTags",
    "JsonAnswer",
    "Label",
    "Letters",
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
    "RedrawThenAnswer",
    "Reorder",
    "Reperceive",
    "RuledGrid",
    "ScalarOverlay",
    "SegmentTint",
    "SetOfMark",
    "Som",
    "Spotlight",
    "System",
    "Template",
    "Tint",
    "Verbatim",
    "Verify",
    "Vlm2",
    "Vote",
    "WholeNumber",
    "YesNo",
    "ZoomOnCells",
    "ZoomOnClaim",
    "ZoomOnDetections",
    "ZoomOnMarks",
]
