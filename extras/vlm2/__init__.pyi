from .metrics import (
    CountScorer as CountScorer,
    GroupScorer as GroupScorer,
    PairScorer as PairScorer,
    VideoScorer as VideoScorer,
)
from .task import Vlm2Bench as Vlm2Bench
