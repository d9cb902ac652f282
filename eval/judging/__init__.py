"""A model as a judge of replies that no rule can read: its prompts, its calls, and a summary of its
verdicts.

Not here: rules that read replies (`readers`), and the stored judgements (`records`).
"""

__all__: list[str] = []
