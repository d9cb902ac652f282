"""Where looktwice is used inside what people already run: a study as a model server, our image
tools for any agent client, and inspect_ai.

Not here: logs that those programs have written (`logs`), and the page of a run (`eval.page`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
