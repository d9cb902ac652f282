"""Agents: a model calls tools to look at images again. This room holds the loop, its bounds, the
tools and the formats of tool calls.

`tool.py` explains how to write a tool of your own; `tools.py` holds examples.

Not here: turns that need no tools (`turns`), and the analysis of what an agent did
(`eval.analysis`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
