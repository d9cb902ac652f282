"""Classical readers of flat drawings: counted shapes, coloured shapes, grids, dot letters, pattern sheets.

Not here: readers of photographs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
