"""Linear probes of a model's layers, compared with the model's answers: where is the answer lost?

Not here: the layers' states of bundled models (`pipelines.models`), and accuracy along control
parameters (`adaptive`).
"""

__all__: list[str] = []
