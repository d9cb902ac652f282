from .benchmark import Metric as Metric, Scorer as Scorer
from .groups import AllRight as AllRight
from .row import Row as Row
from .score import RecordScorer as RecordScorer
from .verdict import Score as Score, Verdict as Verdict
