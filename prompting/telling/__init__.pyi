from .words import (
    DepthWords as DepthWords,
    MatchWords as MatchWords,
    RegionWords as RegionWords,
    SimilarityWords as SimilarityWords,
)
