"""How pictures are encoded and decoded: PNG written fast, pixels read upright, and whether a JPEG
can be read, told before it is.

Not here: pictures themselves, which are `pipelines.picture`."""

__all__: list[str] = []
