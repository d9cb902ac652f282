from .agent import Agent as Agent
from .call_formats import Native as Native, Plain as Plain, Tagged as Tagged
from .episode import Bounds as Bounds
from .specialist_tools import (
    Apply as Apply,
    CropByWord as CropByWord,
    RandomZoom as RandomZoom,
    ShowDepth as ShowDepth,
    ShowMatches as ShowMatches,
    ShowSegments as ShowSegments,
    TrueZoom as TrueZoom,
    ZoomOnFaces as ZoomOnFaces,
)
from .tool import (
    AgentTool as AgentTool,
    Arguments as Arguments,
    OnBox as OnBox,
    OnImage as OnImage,
    ToolResult as ToolResult,
)
from .view_tools import (
    Answer as Answer,
    Contrast as Contrast,
    DrawBox as DrawBox,
    DrawPoint as DrawPoint,
    Magnify as Magnify,
    Measure as Measure,
    Rotate as Rotate,
    ShowGrid as ShowGrid,
    Undo as Undo,
    Zoom as Zoom,
)
