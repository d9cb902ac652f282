"""Multimodal models in this process: LocalVLM runs a network of Hugging Face transformers, VLLM and
SGLang batch the requests of all threads.

Here: the chat templates of local networks, the common parts of both engines, and the settings,
requests and results of each model.
Not here: models behind HTTP (`pipelines.models`), and the throughput of each (`bench/on_gpu.py`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
