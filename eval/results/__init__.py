"""Results in Python, for notebooks and papers: records as tables, flips with pictures, figures,
LaTeX and Parquet.

`results` reads runs and finds the flips between two variants; `record_table` writes files.
Not here: the report (`eval.report`), and the computation of the numbers (`scoring`, `analysis`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
