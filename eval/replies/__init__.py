"""Recorded replies of other programs: read, scored through our readers, and exported in their formats.

Not here: the records of our own runs (`records`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
