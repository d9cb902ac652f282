"""Studies that choose what to ask next from the answers so far: staircases to a threshold, and
races between arms.

Not here: what runs and records them (`runs`), and the fits (`analysis`)."""

__all__: list[str] = []
