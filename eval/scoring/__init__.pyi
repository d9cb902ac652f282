from .benchmark import Scorer as Scorer
from .groups import AllRight as AllRight
from .metrics import Metric as Metric, Row as Row
from .score import RecordScorer as RecordScorer
from .verdict import Score as Score, Verdict as Verdict
