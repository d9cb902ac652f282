"""Geometry of two views by networks that process both at once: depth and cameras, and, computed
from them, matches (a matcher for every rule that takes one) and the direction in which the camera
moved.

Not here: depth of a single image, stereo (`specialists.maps`) and matchers of pixels
(`specialists.matching`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
