"""Control arms of an ablation: no image, another image, random or oracle crops and marks, permuted
choices.

Not here: the treatments (`views`, `markers`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
