"""The protocols in which clients ask `looktwice serve`: chat completions and responses of OpenAI,
and messages of Anthropic, each converted to a common internal form and answered from it.

Not here: the server itself (`http_gate`, `command`) and what a study makes of a question (`lens`);
how a study's own models are asked (`pipelines.models`).
"""
