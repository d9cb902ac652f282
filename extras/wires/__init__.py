"""Models behind the providers' own protocols: OpenAI's Responses, Anthropic's Messages and Gemini's
generateContent. They carry pictures inside tool results, and signed thoughts in later turns, which
chat completions cannot.

Requests go through looktwice's own HTTP layer rather than the providers' Python clients, for three
reasons. Exact bytes: google-genai encodes pictures anew in URL-safe base64, while a recorded run
must name the bytes that the model saw. One retry policy: openai gives up when a server asks to wait
longer than two minutes and anthropic waits for it, and both retry where the run's own limits cannot
see it. One payment per request: the cache, the budget and a stop all count calls, not attempts.

Here: functions between a chat-completions request or reply and each protocol's, which batches use
too, and the models that ask through them.
Not here: messages and chat completions themselves (`pipelines.models`), batch endpoints
(`batches`), and serving these protocols to clients (`integrations`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
