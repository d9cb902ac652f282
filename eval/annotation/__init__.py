"""Sheets on which people sort errors, answer questions or rate them: drawn (`sheet`), read
again (`ratings`), and set beside the contestants of a run (`ceilings`).

Not here: a model as a judge (`judging`), and what agreement is (`statistics`)."""

__all__: list[str] = []
