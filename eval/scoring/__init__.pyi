from .groups import AllRight as AllRight
from .row import Row as Row
from .verdict import (
    Metric as Metric,
    PointScores as PointScores,
    Score as Score,
    ScoredRecord as ScoredRecord,
    Scorer as Scorer,
    Total as Total,
    Verdict as Verdict,
)
