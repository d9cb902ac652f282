"""Runs studies: checks before a run, runs every sample through every arm, inspects, merges and
replays runs.

Not here: configurations (`pipelines.config`), scores (`scoring`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
