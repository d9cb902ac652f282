from .crop import Crop as Crop
from .encode import Encode as Encode
from .layout import Concatenate as Concatenate, IndexTags as IndexTags, Reorder as Reorder
from .resize import (
    ClaudePatches as ClaudePatches,
    FixedHeight as FixedHeight,
    LongestSide as LongestSide,
    Megapixels as Megapixels,
    MinimumSide as MinimumSide,
    OpenAIPatches as OpenAIPatches,
    OpenAITiles as OpenAITiles,
    QwenPatches as QwenPatches,
    TokenBudget as TokenBudget,
)
from .seen import AsSeen as AsSeen
from .zoom import (
    Look as Look,
    Show as Show,
    ZoomOnCells as ZoomOnCells,
    ZoomOnDetections as ZoomOnDetections,
    ZoomOnMarks as ZoomOnMarks,
)
