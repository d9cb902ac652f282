from .fixed_format import Marked as Marked, Strict as Strict, WholeReply as WholeReply
from .robust import Robust as Robust
