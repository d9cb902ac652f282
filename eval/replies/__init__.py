"""Recorded replies of other programs: loaded (`files`), scored (`scored`) and written in their
formats (`exports`).

`command` is `looktwice replies`, `task` the questions for replaying such replies as a run. Not
here: the records of our own runs (`records`), and how replies are read (`readers`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
