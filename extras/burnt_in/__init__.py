"""Marks for images without annotations: detects, reads and erases markers in the pixels, and reads
the marks of known pictures from a file.

Not here: drawing markers (`prompting.markers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
