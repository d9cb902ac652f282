"""Annotation sheets, on which people classify errors, answer questions or rate them: created by
`sheet`, read back by `ratings`.

Not here: people compared with the contestants of a run (`studies`), a model as a judge
(`judging`), and measures of agreement (`eval.statistics`).
"""

__all__: list[str] = []
