"""All models: OpenAI-compatible endpoints, local networks, recorded and scripted replies.

Here: the wire format, retries, rate limits, usage, and the cache of replies.
Not here: messages, replies and call options themselves (`pipelines.model`), and what is asked
(`prompting`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
