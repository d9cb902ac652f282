"""What a linear probe reads in the layers of a model, beside what the model answers: where is it
lost?

Not here: the states of the layers (`pipelines.models`), and accuracy along control parameters
(`adaptive`).
"""

__all__: list[str] = []
