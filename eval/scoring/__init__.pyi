from .benchmark import AllRight as AllRight, Metric as Metric, Scorer as Scorer
from .row import Row as Row
from .score import RecordScorer as RecordScorer
from .verdict import Score as Score, Verdict as Verdict
