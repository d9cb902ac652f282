"""Networks that detect objects, faces and text in one image, and one that detects generated images.

Not here: masks (`segmentation`) and one number per pixel (`maps`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
