"""What is drawn on marks and regions: circles, boxes, contours, set-of-mark, overlays of depth and
matches.

Not here: grids (`grids`), the shapes and text they are drawn with (`drawing`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
