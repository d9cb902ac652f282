"""Markers that are part of an image's pixels: found and read as marks, and erased.

Not here: drawing markers (`markers`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
