"""Accuracy along control parameters: psychometric functions, thresholds, and two parameters
crossed.

Not here: staircases, which choose what is asked (`adaptive`)."""

__all__: list[str] = []
