"""Analyses across arms: effects of factors, shared errors, specialists compared with models, tool
use of agents.

Not here: single metrics and intervals (`scoring`), and how tables are printed (`display`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
