"""The studio: a page on which you put marks and stages on your own picture, see what a model would
be sent, ask it, and download the study.

`draft` holds the content of the page as a study; `backend` renders it, sends it to models, and
reports costs and marks that are not drawn; `forms` describes the classes; `server` connects these
to the page, also in a notebook, and makes the first draft from a picture, a run's sample or a
study. The page's files are in `templates`. Not here: pages about finished runs (`eval.page`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
