"""Do You See Me (2025): its files, its joint questions, and its own metrics.

Not here: questions drawn like its own (`scenes`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
