"""How the model is asked: once, several times with a vote, after a description, again with doubt, after examples.

Not here: the words of a prompt (`wording`), tools (`agent`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
