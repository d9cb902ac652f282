from .fixed_forms import Marked as Marked, Strict as Strict, WholeReply as WholeReply
from .robust import Robust as Robust
from .toolkits import BlinkOfficial as BlinkOfficial, LmmsEval as LmmsEval, Vlmevalkit as Vlmevalkit
from .vlm2 import Vlm2 as Vlm2
