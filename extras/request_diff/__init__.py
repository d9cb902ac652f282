"""Comparison of the requests that programs send to models: reading and pairing (`requests`),
differences factor by factor (`factors`), output (`report`), and the effect of each difference
(`effects`).

Not here: comparison of replies, log against log (`logs`), and arms of a study that differ in one
stage (`eval.analysis`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
