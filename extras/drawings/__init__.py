"""Readers of flat drawings without weights: shapes, colours, grids, dot letters, pattern sheets,
matrices and figure analogies. All but one answer.

Not here: detectors for photographs (`specialists.detection`), and how such drawings are generated
(`scenes`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
