"""Benchmarks and tables of questions, with the metrics that are their own.

Here: BLINK, BLINK-Twice, VLM2-Bench, Do You See Me, a user's own files, and questions on made
scenes and photographs with known answers. Not here: other drawn questions, and those made from a
user's images, which are extensions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
