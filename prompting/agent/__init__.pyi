from .agent import Agent as Agent
from .call_formats import (
    NativeCalls as NativeCalls,
    PlainCalls as PlainCalls,
    TaggedCalls as TaggedCalls,
)
from .episode import Bounds as Bounds
from .result_controls import (
    BlackImages as BlackImages,
    DescribedImages as DescribedImages,
    NoResult as NoResult,
)
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
    BoxArguments as BoxArguments,
    BoxCoordinates as BoxCoordinates,
    ImageArguments as ImageArguments,
    ImageNumber as ImageNumber,
    PointArguments as PointArguments,
    PointCoordinates as PointCoordinates,
    ToolResult as ToolResult,
    run_stage as run_stage,
    run_stage_on_image as run_stage_on_image,
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
