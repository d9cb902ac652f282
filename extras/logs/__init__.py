"""Logs of evaluations as tables with fixed columns: reading and writing them (`format`, and a
module for each program), matching and comparing them (`compare`), published tables (`standings`),
and recorded replies (`replies`).

Not here: the questions and labels of recorded replies (`eval.replies`), the tables of one run
(`eval.report`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
