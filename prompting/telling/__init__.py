"""Results of specialists as text instead of images: regions, depth, matches, similarity.

Not here: the same results drawn into images (`markers`), and the wording of the question
(`wording`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
