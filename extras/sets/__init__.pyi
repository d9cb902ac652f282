from .baby_vision import BabyVision as BabyVision
from .depth_pairs import Da2k as Da2k
from .embodied import Erqa as Erqa
from .point_answers import PointScorer as PointScorer
from .pointing import PointBench as PointBench, RefSpatial as RefSpatial
from .readers import Boxed as Boxed
from .rules import SetScorer as SetScorer
from .spatial import OmniSpatial as OmniSpatial, SpatialDise as SpatialDise
from .vis_factor import VisFactor as VisFactor, VisFactorScorer as VisFactorScorer
