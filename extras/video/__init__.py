"""Videos in questions: frames at exact times as images, videos for models that take them, and
stills for the pages of runs.

Not here: marks, crops and every other stage, which treat a frame as any image; the tasks that name
videos (`eval.tasks`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
