"""What the numbers of a run say together: factors, shared errors, specialists against models, looks of agents.

Not here: single metrics and intervals (`scoring`), and how tables are printed (`display`)."""

__all__: list[str] = []
