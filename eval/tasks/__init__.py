"""Benchmarks and tables of questions, with the metrics that are their own.

Here: BLINK, BLINK-Twice, VLM2-Bench, Do You See Me, a user's own files, and questions generated
with known answers. Not here: questions made from a user's images (`make`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
