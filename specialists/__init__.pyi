from .answers import (
    CameraMotion as CameraMotion,
    Chance as Chance,
    ColorAtMark as ColorAtMark,
    Count as Count,
    CountIdentities as CountIdentities,
    DarkerPoint as DarkerPoint,
    FaceIdentity as FaceIdentity,
    FittingBox as FittingBox,
    GroupIdentities as GroupIdentities,
    Guess as Guess,
    MatchedPoint as MatchedPoint,
    MostReal as MostReal,
    MostSimilar as MostSimilar,
    NearerPoint as NearerPoint,
    NearestFeature as NearestFeature,
    ObjectIdentity as ObjectIdentity,
    ReadText as ReadText,
    SameIdentity as SameIdentity,
    SeamMatcher as SeamMatcher,
    SpatialRelation as SpatialRelation,
)
from .features import (
    DenseSimilarity as DenseSimilarity,
    GlobalSimilarity as GlobalSimilarity,
    GramSimilarity as GramSimilarity,
)
from .maps import (
    SGBM as SGBM,
    ColorRetinex as ColorRetinex,
    ConstantShading as ConstantShading,
    DepthCue as DepthCue,
)
from .matching import SIFT as SIFT, RotationSearch as RotationSearch
from .segmentation import Felzenszwalb as Felzenszwalb, Slic as Slic
