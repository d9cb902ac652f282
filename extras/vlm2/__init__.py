"""VLM2-Bench (2025): its rows, videos and metrics, and the judge of its descriptions.

Not here: videos of other questions (`video`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
