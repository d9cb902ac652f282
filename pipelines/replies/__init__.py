"""Parts of a reply other than its answer: thoughts, further turns, tool calls left as text.

Not here: the answer itself, which `eval.readers` finds."""

__all__: list[str] = []
