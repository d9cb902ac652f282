"""The HTML page of a report, which works without a server: its data, the pairs it compares, and a
server for large runs.

`data` is the plain structure that a page shows, from any source; `run_page` makes it from scored
runs, `conversations` adds the texts and pictures of a sample, `render` writes the file and
`serving` serves it. Its style and scripts are in `templates`. Not here: a report's tables
(`display`, `analysis`) and other files (`eval.report`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
