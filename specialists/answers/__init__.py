"""Stages that answer without the multimodal LLM: rules over the results of specialists, and
baselines that ignore the images.

Parsing of questions and choices is here too.
Not here: the specialists, which are in the rooms named for what they compute, and the rules for
flat drawings, which are an extension.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
