"""Point matching between two images: SIFT, XFeat, LightGlue, LoFTR and other keypoint matchers.

Not here: the rules that answer correspondence questions (`answers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
