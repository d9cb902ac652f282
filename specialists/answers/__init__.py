"""Stages that answer without the MLLM: a rule over what a specialist finds, and baselines that ignore the image.

Not here: the specialists themselves, which lie in the rooms named for what they compute."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
