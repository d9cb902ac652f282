"""Integrations with other programs: a study as a model server, image tools for any agent client,
and inspect_ai.

Not here: logs written by those programs (`logs`), and the page of a run (`eval.page`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
