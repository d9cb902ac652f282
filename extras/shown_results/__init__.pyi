from .overlays import (
    DepthOverlay as DepthOverlay,
    MatchOverlay as MatchOverlay,
    ScalarOverlay as ScalarOverlay,
    SegmentTint as SegmentTint,
)
from .stage_tools import (
    ApplyStage as ApplyStage,
    CropByWord as CropByWord,
    ShowDepth as ShowDepth,
    ShowMatches as ShowMatches,
    ShowSegments as ShowSegments,
    ZoomOnFaces as ZoomOnFaces,
)
from .tools import CompareRegions as CompareRegions, TellNearer as TellNearer
from .words import (
    DepthWords as DepthWords,
    MatchWords as MatchWords,
    RegionWords as RegionWords,
    SimilarityWords as SimilarityWords,
)
