"""The protocols in which clients ask `looktwice serve`: chat completions and responses of OpenAI,
and messages of Anthropic. Requests are converted to a common internal form, and responses from it.

Not here: the server itself (`http_gate`, `command`), how a study answers a question (`responder`),
and requests to a study's own models (`pipelines.models`).
"""
