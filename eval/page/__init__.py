"""The page of a report, which runs by itself in a browser: its data, the pairs it compares, and its
server.

`data` is the plain structure that a page shows, whatever its source; `of_runs` makes it from scored
runs, `conversations` adds the texts and pictures of a sample, `render` writes the file and
`serving` serves it. Its looks and behaviour are in `templates`. Not here: a report's tables
(`display`, `analysis`) and other files (`eval.report`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
