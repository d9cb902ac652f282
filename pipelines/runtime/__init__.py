"""Resources shared by all threads of a run: content-addressed storage of results,
digests of weights, and the cleanup at the end.

Not here: the loop over samples, which is `eval.runs`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
