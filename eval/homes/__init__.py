"""Where looktwice is used inside what people already run: a study as a model server, our image
tools for any agent client, and inspect_ai.

Not here: logs that those programs have written (`logs`), and the page of a run (`page`).
"""

__all__: list[str] = []
