"""A model that is asked through batch endpoints at half the price: a run's queue of requests, and
each provider's batch protocol.

Here: the queue of waiting requests and submitted batches, and the protocols.
Not here: the models that are asked directly (`pipelines.models`), the bodies of requests in each
provider's protocol (`wires`), and the rounds of a run (`eval.runs`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
