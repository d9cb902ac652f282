"""Sheets on which people sort errors, answer questions or rate them: drawn (`sheet`), read
again (`ratings`).

Not here: people beside the contestants of a run (`studies`), a model as a judge
(`eval.judging`), and what agreement is (`eval.statistics`)."""

__all__: list[str] = []
