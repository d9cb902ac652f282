"""The on-disk format of a run: records, judgements, and how both are written and read.

Not here: what makes them (`runs`) and what is computed from them (`scoring`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
