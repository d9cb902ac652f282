"""Networks that extract dense features of one image, attention maps and their share on marks, and
the salience of an edit.

Not here: similarities based on features (`specialists.features`), and matched points of two images
(`matching`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
