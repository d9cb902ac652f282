from .baselines import Chance as Chance, Guess as Guess
from .camera import CameraMotion as CameraMotion
from .color import ColorAtMark as ColorAtMark
from .correspondence import MatchedPoint as MatchedPoint, NearestFeature as NearestFeature
from .counting import Count as Count
from .depth import NearerPoint as NearerPoint
from .identity import (
    CountIdentities as CountIdentities,
    FaceIdentity as FaceIdentity,
    GroupIdentities as GroupIdentities,
    ObjectIdentity as ObjectIdentity,
    SameIdentity as SameIdentity,
)
from .image_scores import MostReal as MostReal, MostSimilar as MostSimilar
from .jigsaw import SeamMatcher as SeamMatcher
from .localization import FittingBox as FittingBox
from .reading import ReadText as ReadText
from .reflectance import DarkerPoint as DarkerPoint
from .spatial import SpatialRelation as SpatialRelation
