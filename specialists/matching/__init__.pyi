from .keypoints import KeypointMatcher as KeypointMatcher
from .lightglue import LightGlue as LightGlue, XFeat as XFeat
from .loftr import LoFTR as LoFTR
from .roma import RoMa as RoMa
from .rotation_search import RotationSearch as RotationSearch
from .sift import SIFT as SIFT
