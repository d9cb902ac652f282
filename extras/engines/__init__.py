"""Models that vLLM or SGLang run in this process, with the requests of all threads in one batch.

Here: what both engines share, and for each engine its settings, its requests and its results.
Not here: the same engines behind HTTP and networks of transformers (`pipelines.models`), and the
throughput of each (`bench/on_gpu.py`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
