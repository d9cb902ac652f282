"""A model as a judge of replies that no rule can read: its passes, its calls, its notes, and its summary.

Not here: rules that read replies (`readers`), and the stored judgements (`records`)."""

__all__: list[str] = []
