"""Similarity of two images, computed from the dense features of any extractor.

Not here: the networks that extract features, which are an extension, and point matching
(`matching`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
