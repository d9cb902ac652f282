"""BLINK-Twice (2025): its questions and its metrics.

Not here: the judge of its reasoning (`judging`), and BLINK itself (`eval.tasks`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
