from .benchmark import AllRight as AllRight, Scorer as Scorer
from .row import Row as Row
from .verdict import Score as Score, Verdict as Verdict
