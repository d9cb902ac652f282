"""How far results hang on the marker, the wording and the set: fragility under styles and codecs,
ranks, gaps taken apart, and what is answered without the images.

Not here: what every report has (`eval.analysis`)."""

__all__: list[str] = []
