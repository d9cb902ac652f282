"""Marks of images without annotations: markers in the pixels are detected, read and erased, and
known pictures get their marks from a file.

Not here: drawing markers (`prompting.markers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
