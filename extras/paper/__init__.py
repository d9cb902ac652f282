"""Files for papers: figures, and the table of accuracies in LaTeX.

Not here: the report and its page (`eval`), and records as a table (`eval.results`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
