"""An answer and its key to a score, scores to metrics with intervals, and the statistics of comparisons.

Not here: reading replies (`readers`), tables (`display`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
