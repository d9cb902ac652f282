"""Operations on existing runs: replaying, showing samples, merging shards, and limiting the size of
the reply cache.

Not here: producing runs (`runs`), reading and writing them (`records`), or analysing them
(`analysis`).
"""

__all__: list[str] = []
