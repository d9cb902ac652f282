from .agent import Agent as Agent
from .call_formats import (
    NativeCalls as NativeCalls,
    PlainCalls as PlainCalls,
    TaggedCalls as TaggedCalls,
)
from .episode import Bounds as Bounds
from .specialist_tools import (
    ApplyStage as ApplyStage,
    CropByWord as CropByWord,
    OracleZoom as OracleZoom,
    ShowDepth as ShowDepth,
    ShowMatches as ShowMatches,
    ShowSegments as ShowSegments,
    ZoomOnFaces as ZoomOnFaces,
)
from .tool import (
    AgentTool as AgentTool,
    Arguments as Arguments,
    BlackImages as BlackImages,
    BoxArguments as BoxArguments,
    BoxCoordinates as BoxCoordinates,
    DescribedImages as DescribedImages,
    ImageArguments as ImageArguments,
    ImageNumber as ImageNumber,
    NoResult as NoResult,
    PointArguments as PointArguments,
    PointCoordinates as PointCoordinates,
    ToolResult as ToolResult,
    run_stage as run_stage,
    run_stage_on_image as run_stage_on_image,
)
from .tools import (
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
