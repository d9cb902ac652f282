"""Python as a tool of an agent: the model writes code that processes the images, and a sandbox
outside this process runs it without network and files.

Here: the tool, the interface of sandboxes, bubblewrap and containers, and the program that runs
inside.
Not here: agents and their other tools (`prompting.agent`), and tools that read code but do not run
it (`prompting.agent.Edit`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
