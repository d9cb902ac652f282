"""Studies that choose the next questions from the answers so far: staircases that find a threshold,
and races between arms.

Here: accuracy along a control parameter (`thresholds`, `functions`), item difficulty
(`item_response`), and the choice of questions (`steering`, `race`, `discovery`).
Not here: running a study and recording it (`eval.runs`).
"""

__all__: list[str] = []
