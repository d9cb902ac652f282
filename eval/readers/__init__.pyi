from .fixed_forms import Marked as Marked, Strict as Strict, WholeReply as WholeReply
from .robust import Robust as Robust
from .toolkits import BlinkOfficial as BlinkOfficial, LmmsEval as LmmsEval, Vlmevalkit as Vlmevalkit
from .vlm2 import (
    Vlm2Count as Vlm2Count,
    Vlm2Exact as Vlm2Exact,
    Vlm2Grouping as Vlm2Grouping,
    Vlm2Official as Vlm2Official,
    Vlm2TrueFalse as Vlm2TrueFalse,
    Vlm2Vlmevalkit as Vlm2Vlmevalkit,
)
