"""Masks: Segment Anything, masks of detections, superpixels.

Not here: boxes (`detection`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
