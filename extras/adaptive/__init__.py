"""Studies that choose what to ask next from the answers so far: staircases to a threshold, and
races between arms.

Here: accuracy along a control parameter (`thresholds`, `functions`), how hard items are
(`item_response`), and what chooses (`steering`, `race`, `discovery`). Not here: what runs and
records them (`eval.runs`)."""

__all__: list[str] = []
