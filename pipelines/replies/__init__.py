"""Parts of a reply other than its answer: thoughts, further turns, tool calls left as text.
Not here: what answers a question, which readers of `eval.readers` find."""

__all__: list[str] = []
