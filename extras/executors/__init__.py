"""Runs whose samples are asked in other processes, of this machine (`processes` is the run's
side, `child` a process, `messages` what passes between) or of a cluster (`on_ray`).

Not here: the threads of a run (`eval.runs.crew`)."""

__all__: list[str] = []
