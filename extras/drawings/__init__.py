"""Weight-free readers of flat drawings: shapes, colours, grids, dot letters, pattern sheets,
matrices and figure analogies. All answer questions, except MarkAskedShapes, which adds marks.

Not here: detectors for photographs (`detection`), and the generation of such drawings
(`scenes`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
