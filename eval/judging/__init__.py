"""A model as a judge of replies that no rule can read: prompts, calls, and summaries.

Not here: rules that read replies (`readers`), and the stored judgements (`records`).
"""

__all__: list[str] = []
