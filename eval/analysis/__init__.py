"""Analyses across arms: effects of factors, shared errors, specialists against models, tool use of
agents.

Not here: single metrics and intervals (`scoring`), and how tables are printed (`display`)."""

__all__: list[str] = []
