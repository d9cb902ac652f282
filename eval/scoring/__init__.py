"""Compares answers with ground truth, aggregates metrics with confidence intervals, and tests
differences.

Not here: reading replies (`readers`), tables (`display`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
