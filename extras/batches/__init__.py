"""A model that is asked in batches: the queue of a run, and the endpoints that providers have for
it.

Here: what waits and lies with a provider, and each provider's protocol. Not here: the model behind
it, which is asked directly (`pipelines.models`), and the rounds of a run (`eval.runs`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
