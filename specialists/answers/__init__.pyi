from .baselines import Chance as Chance, Guess as Guess
from .color import ColorAtMark as ColorAtMark, DarkerPoint as DarkerPoint
from .correspondence import (
    CameraMotion as CameraMotion,
    MatchedPoint as MatchedPoint,
    NearestFeature as NearestFeature,
)
from .depth import NearerPoint as NearerPoint
from .detections import Count as Count, FittingBox as FittingBox, ReadText as ReadText
from .identity import (
    CountIdentities as CountIdentities,
    FaceIdentity as FaceIdentity,
    GroupIdentities as GroupIdentities,
    ObjectIdentity as ObjectIdentity,
    SameIdentity as SameIdentity,
)
from .image_scores import MostReal as MostReal, MostSimilar as MostSimilar
from .jigsaw import SeamMatcher as SeamMatcher
from .spatial import SpatialRelation as SpatialRelation
