from .metrics import AllRight as AllRight
from .row import Row as Row
from .verdict import Score as Score, Scorer as Scorer, Verdict as Verdict
