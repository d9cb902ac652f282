from .stages import (
    BlinkOfficial as BlinkOfficial,
    LmmsEval as LmmsEval,
    Marked as Marked,
    Robust as Robust,
    Strict as Strict,
    Vlmevalkit as Vlmevalkit,
    WholeReply as WholeReply,
)
from .vlm2 import (
    Vlm2Count as Vlm2Count,
    Vlm2Exact as Vlm2Exact,
    Vlm2Grouping as Vlm2Grouping,
    Vlm2Official as Vlm2Official,
    Vlm2TrueFalse as Vlm2TrueFalse,
    Vlm2Vlmevalkit as Vlm2Vlmevalkit,
)
