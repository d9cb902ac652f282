"""Multimodal models in this process: LocalVLM runs a network of Hugging Face transformers, VLLM and
SGLang put the requests of all threads into one batch.

Here: the chat templates of local networks, what both engines share, and for each model its
settings, its requests and its results.
Not here: models behind HTTP (`pipelines.models`), and the throughput of each (`bench/on_gpu.py`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
