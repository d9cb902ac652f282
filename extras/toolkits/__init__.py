"""Readers, prompts, sampling options, marker styles and a scorer that follow published evaluations,
to reproduce their numbers.

Not here: our own reader (`eval.readers`) and markers (`prompting.markers`), and the tasks of single
benchmarks (`sets`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
