"""Accuracy along control parameters: psychometric functions, thresholds, and two parameters
crossed; the difficulty of items, and totals from few of them.

Not here: staircases, which choose what is asked (`adaptive`)."""

__all__: list[str] = []
