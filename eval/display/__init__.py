"""Shows results: tables, pages of one sample, progress in the terminal.

Not here: how numbers are computed (`scoring`, `analysis`), and which pages a report has
(`eval.report`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
