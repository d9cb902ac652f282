from .keypoints import KeypointMatcher as KeypointMatcher
from .lightglue import LightGlue as LightGlue, XFeat as XFeat
from .pair_network import LoFTR as LoFTR, RoMa as RoMa
