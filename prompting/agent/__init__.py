"""The model looks again with tools: the loop and its bounds, the tools, and three ways to call them.

Not here: turns that need no tools (`turns`), and the analysis of what an agent did (`eval.analysis`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
