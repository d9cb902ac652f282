"""Point matching between two images by networks: XFeat, LightGlue, LoFTR, RoMa and other keypoint
matchers.

Not here: SIFT (`specialists.matching`), matches from geometry (`geometry`), and the rules that
answer correspondence questions (`specialists.answers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
