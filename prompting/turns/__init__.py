"""Ways of asking the model: once, with a majority vote, from a description, with re-perception,
with few-shot examples.

Not here: the wording of a prompt (`wording`), and tools (`agent`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
