"""What a reply holds beside its answer: thoughts, other turns, calls of tools left as text. Not
here: what answers a question, which readers of `eval.readers` find."""

__all__: list[str] = []
