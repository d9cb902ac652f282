"""Questions whose pictures the program draws itself, beside the marked ones: Do You See Me's
subtasks, puzzles, letters and shapes, rendered solids; and toy models that answer the letters.

Not here: `eval.tasks.MarkedScenes`, photographs (`eval.tasks`), questions from your own files
(`make`), and what reads such drawings (`drawings`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
