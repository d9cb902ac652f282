"""Tools and call formats for agents that were trained on other tools.

Not here: the agent and its own tools (`prompting.agent`), and code that runs (`python_tool`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
