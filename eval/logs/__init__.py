"""Logs of anybody's evaluation as columns: read (`read`), matched (`match`), compared (`compare`).

Not here: how recorded replies are scored (`replies`), and the tables of one run (`report`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
