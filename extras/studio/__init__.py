"""The studio: a page for putting marks and stages on your own picture, seeing what a model would be
sent, asking it, and downloading the study.

`draft` holds the content of the page as a study; `backend` renders and asks it, and reports costs
and marks that are not drawn; `forms` describes the classes; `server` connects all that to the page,
also in a notebook, and makes the first draft from a picture, a run's sample or a study. The page's
files are in `templates`. Not here: pages about finished runs (`eval.page`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
