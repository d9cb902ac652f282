"""Point matching between two images by SIFT, also over rotations.

Not here: networks that match points, which are an extension, and the rules that answer
correspondence questions (`answers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
