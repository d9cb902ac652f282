"""What tasks on several machines share: the limits of endpoints, and networks that lie with others.

Not here: the tasks of a run and who writes what they find, which is `eval.runs`."""

__all__: list[str] = []
