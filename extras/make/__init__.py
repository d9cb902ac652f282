"""Questions made from your own images: jigsaws, correspondence, relative depth, localisation, and
sequences.

Not here: questions drawn or cut by the program itself (`eval.tasks`, `scenes`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
