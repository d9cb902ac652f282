"""How results are shown: tables, pages of one sample, progress in the terminal.

Not here: what the numbers are (`scoring`, `analysis`), and which pages a report holds
(`eval.report`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
