"""Questions on generated pictures: Do You See Me's subtasks, puzzles, letters and shapes, and
rendered solids; and toy models that answer the questions on letters and shapes.

Not here: `eval.tasks.MarkedScenes`, photographs (`eval.tasks`), questions from your own files
(`make`), and specialists that read such drawings (`drawings`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
