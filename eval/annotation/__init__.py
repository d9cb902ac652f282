"""Sheets on which people sort errors, answer questions or rate them: drawn (`sheet`), and read
again (`ratings`).

Not here: a model as a judge (`judging`), and what agreement is (`statistics`)."""

__all__: list[str] = []
