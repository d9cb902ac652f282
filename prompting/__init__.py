"""What is drawn, cropped, said and asked: the stages between a sample and a model's reply."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
