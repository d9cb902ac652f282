"""From the text of a reply to an answer, or to the reason why there is none.

Not here: whether the answer is right (`scoring`), judges (`judging`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
