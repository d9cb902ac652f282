"""The wording of a prompt: the question and its choices, instructions, chain of thought, answer
formats, templates.

Not here: when the model is asked (`turns`), and the text that explains grids (`grids`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
