"""The presentation of images: crops, zooms, resizing, layout and encoding.

Not here: anything drawn into the image (`markers`, `grids`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
