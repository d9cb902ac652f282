"""The protocols in which clients send requests to `looktwice serve`: OpenAI's chat completions and
Responses, and Anthropic's Messages. Requests are converted to a common internal form, and responses
are converted from it.

Not here: the server itself (`http_gate`, `command`), how a study answers a question (`responder`),
and requests to a study's own models (`pipelines.models`).
"""
