"""Dot matrices, ruled grids and axes over an image, and the text that explains them to the model.

Not here: zooms on the cells of a grid (`views`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
