"""The studio: a page on which somebody puts marks and stages on a picture of their own, sees what a
model would be sent, asks, and takes the study along.

`draft` is what stands on the page, as a study; `desk` renders and asks it, and says what asking
costs and what is not seen; `forms` describes the classes; `server` carries all that to the page,
also in a notebook, and makes its first draft of a picture, a run's sample or a study. Its files are
in `templates`. Not here: pages of what was asked already (`eval.page`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
