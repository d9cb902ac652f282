"""How the model is asked: once, with a majority vote, from a description, with re-perception, with
few-shot examples.

Not here: the words of a prompt (`wording`), tools (`agent`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
