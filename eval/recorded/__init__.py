"""What is done with a run that is there: replayed, shown by sample, merged from its parts, and
its reply cache kept within bounds.

Not here: how it came to be (`runs`), how it is read and written (`records`), or what it found
(`analysis`)."""

__all__: list[str] = []
