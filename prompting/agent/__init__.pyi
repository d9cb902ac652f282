from .agent import Agent as Agent
from .call_formats import (
    NativeCalls as NativeCalls,
    PlainCalls as PlainCalls,
    TaggedCalls as TaggedCalls,
)
from .episode import Bounds as Bounds
from .tool import (
    AgentTool as AgentTool,
    Arguments as Arguments,
    BlackImages as BlackImages,
    DescribedImages as DescribedImages,
    ImageArguments as ImageArguments,
    NoResult as NoResult,
    ToolResult as ToolResult,
)
from .tools import (
    Answer as Answer,
    ApplyStage as ApplyStage,
    Contrast as Contrast,
    CropByWord as CropByWord,
    DrawBox as DrawBox,
    DrawPoint as DrawPoint,
    Magnify as Magnify,
    Measure as Measure,
    OracleZoom as OracleZoom,
    Rotate as Rotate,
    ShowDepth as ShowDepth,
    ShowGrid as ShowGrid,
    ShowMatches as ShowMatches,
    ShowSegments as ShowSegments,
    Undo as Undo,
    Zoom as Zoom,
    ZoomOnFaces as ZoomOnFaces,
)
from .trained import CodeCalls as CodeCalls, Edit as Edit, ZoomIn as ZoomIn
from .words import CompareRegions as CompareRegions, TellNearer as TellNearer
