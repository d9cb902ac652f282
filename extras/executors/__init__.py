"""Runs whose samples are asked in other processes, of this machine (`processes` is the run's
side, `child` a process, `messages` what passes between) or of a cluster (`on_ray`)."""

__all__: list[str] = []
