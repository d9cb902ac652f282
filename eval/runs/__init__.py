"""Runs: predict every sample of every arm, check before, show, merge and replay after.

Not here: configurations (`pipelines.config`), scores (`scoring`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
