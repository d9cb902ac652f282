"""The protocols in which clients ask `looktwice serve`: chat completions and responses of OpenAI,
and messages of Anthropic. Requests are converted to a common internal form, and responses from it.

Not here: the server itself (`http_gate`, `command`) and what a study makes of a question
(`responder`); how a study's own models are asked (`pipelines.models`).
"""
