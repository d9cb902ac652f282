"""Encoding and decoding of images: fast PNG writing, upright pixels, and a quick check that a JPEG
decodes.

Not here: pictures themselves, which are in `pipelines.picture`.
"""

__all__: list[str] = []
