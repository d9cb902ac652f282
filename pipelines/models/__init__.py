"""Models: OpenAI-compatible endpoints, recorded and scripted replies, and a tiny network.

Here: the wire format, retries, rate limits, usage, and the cache of replies.
Not here: other APIs and networks in this process, which are extensions; messages, replies and call
options themselves (`pipelines.model`); and what is asked (`prompting`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
