"""A model that is asked in batches: the queue of a run, and the endpoints that providers have for
it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
