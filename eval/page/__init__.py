"""The page of a report, which runs by itself in a browser: its data, the pairs it compares, and how
it is served.

`data` is the plain structure that a page shows, whoever made it; `of_runs` makes it of scored runs,
`conversations` adds the words and pictures of a sample, `render` writes the file and `serving`
serves it. How it looks and what it does is in `templates`. Not here: a report's tables (`display`,
`analysis`) and other files (`eval.report`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
