"""The stages between a sample and the model's reply: markers, crops, prompts and turns."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
