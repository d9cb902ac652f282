"""Analyses of how results depend on the marker, the wording and the question set: fragility under
styles and codecs, ranks, decomposition of gaps, and answers without the images.

Not here: analyses of every report (`eval.analysis`).
"""

__all__: list[str] = []
