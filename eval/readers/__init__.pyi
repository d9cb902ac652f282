from .robust import Robust as Robust
from .toolkits import (
    BlinkOfficial as BlinkOfficial,
    LmmsEval as LmmsEval,
    Marked as Marked,
    Strict as Strict,
    Vlm2 as Vlm2,
    Vlmevalkit as Vlmevalkit,
    WholeReply as WholeReply,
)
