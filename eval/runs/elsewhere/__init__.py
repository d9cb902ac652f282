"""Runs whose samples are asked in other processes, of this machine (`processes`, `part`) or of a
cluster (`on_ray`)."""

__all__: list[str] = []
