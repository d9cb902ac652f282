"""How pictures are encoded: PNG written fast, and whether a JPEG can be decoded, told before it is.

Not here: pictures themselves, which are `pipelines.picture`."""

__all__: list[str] = []
