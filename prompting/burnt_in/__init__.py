"""Marks of images that come without any: markers in the pixels are found, read as marks and erased,
and known pictures get the marks that a file holds for them.

Not here: drawing markers (`markers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
