"""Intrinsic images by networks in their authors' original files: Ordinal Shading.

Not here: reflectance without weights or by diffusion (`specialists.maps`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
