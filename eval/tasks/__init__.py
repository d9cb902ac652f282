"""Benchmarks and tables of questions, with their own metrics.

Here: BLINK, a user's own files, and questions with known answers on drawn scenes and photographs.
Not here: other benchmarks, other drawn questions, and questions made from a user's images, which
are extensions.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
