from .boxes import (
    Count as Count,
    FittingBox as FittingBox,
    ReadText as ReadText,
    SpatialRelation as SpatialRelation,
)
from .correspondence import (
    CameraMotion as CameraMotion,
    MatchedPoint as MatchedPoint,
    MostReal as MostReal,
    MostSimilar as MostSimilar,
    NearestFeature as NearestFeature,
)
from .guesses import Chance as Chance, Guess as Guess
from .identity import (
    CountIdentities as CountIdentities,
    FaceIdentity as FaceIdentity,
    GroupIdentities as GroupIdentities,
    ObjectIdentity as ObjectIdentity,
    SameIdentity as SameIdentity,
)
from .measures import (
    ColorAtMark as ColorAtMark,
    DarkerPoint as DarkerPoint,
    NearerPoint as NearerPoint,
    SeamMatcher as SeamMatcher,
)
