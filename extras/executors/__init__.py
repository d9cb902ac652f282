"""Executors that process a run's samples in other processes: on this machine (`processes` is the
run's side, `child` a process, `messages` their protocol) or on a cluster (`ray_executor`), and the
command that merges the shards of a run.

Not here: the threads of a run (`eval.runs.worker_pool`).
"""

__all__: list[str] = []
