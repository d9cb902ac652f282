from .keypoints import KeypointMatcher as KeypointMatcher
from .lightglue import LightGlue as LightGlue
from .loftr import LoFTR as LoFTR
from .sift import SIFT as SIFT
from .turned import Turned as Turned
from .xfeat import XFeat as XFeat
