"""Which part of an image is shown, at what size, in what order and in which encoding: crops, zooms,
resizing, layout.

Not here: anything drawn into the image (`markers`, `grids`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
