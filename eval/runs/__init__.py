"""Runs studies: checks them first, runs every sample through every arm, and inspects, merges and
replays finished runs.

Not here: configurations (`pipelines.config`), scores (`scoring`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
