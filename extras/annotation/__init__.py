"""Sheets on which people sort errors, answer questions or rate them: drawn (`sheet`), read
again (`ratings`).

Not here: people beside the contestants of a run (`analysis`), a model as a judge (`judging`), and
what agreement is (`statistics`)."""

__all__: list[str] = []
