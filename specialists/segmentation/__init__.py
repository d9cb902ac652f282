"""Segmentation without networks: superpixels.

Not here: networks that segment, such as Segment Anything, which are an extension.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
