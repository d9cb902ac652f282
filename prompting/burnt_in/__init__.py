"""Marks that come with a picture alone: markers in its pixels, found, read as marks and erased, and
the marks that a file holds for a picture that looks like it.

Not here: drawing markers (`markers`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
