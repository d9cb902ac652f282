"""Logs of anybody's evaluation as columns: read and written (`format`, and a file for each
program), matched and compared (`compare`), published tables (`standings`), recorded
replies (`replies`).

Not here: the questions and labels of recorded replies (`eval.replies`), the tables of one run
(`eval.report`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
