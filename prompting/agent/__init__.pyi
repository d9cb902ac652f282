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
    Contrast as Contrast,
    DrawBox as DrawBox,
    DrawPoint as DrawPoint,
    Magnify as Magnify,
    Measure as Measure,
    OracleZoom as OracleZoom,
    Rotate as Rotate,
    ShowGrid as ShowGrid,
    Undo as Undo,
    Zoom as Zoom,
)
