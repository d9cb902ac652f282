"""Dense features of one image, similarities of two images based on them, and attention: maps, and
its share on marks.

Not here: matched points of two images (`matching`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
