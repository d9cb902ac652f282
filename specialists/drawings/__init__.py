"""Readers of flat drawings without weights: shapes, colours, grids, dot letters, pattern sheets.
All but one answer.

Not here: detectors for photographs (`detection`), and how such drawings are generated
(`eval.tasks`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
