"""Markers drawn on marks and regions: circles, boxes, contours, set-of-mark, overlays of depth and
matches.

Not here: grids (`grids`), and the shapes and text that markers are drawn with (`drawing`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
