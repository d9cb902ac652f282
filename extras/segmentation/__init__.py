"""Networks that segment: Segment Anything, masks of detections, salient objects.

Not here: superpixels (`specialists.segmentation`), and boxes (`detection`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
