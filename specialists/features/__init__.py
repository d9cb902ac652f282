"""Dense features and global descriptors of an image, how similar two images are, and attention of vision encoders.

Not here: matches between two images (`matching`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
