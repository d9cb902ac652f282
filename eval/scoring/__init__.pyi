from .benchmark import AllRight as AllRight, Metric as Metric, Scorer as Scorer, Total as Total
from .row import Row as Row
from .verdict import PointScores as PointScores, Score as Score, Verdict as Verdict
