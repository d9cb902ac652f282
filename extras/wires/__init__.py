"""Models behind the providers' own protocols: OpenAI's Responses, Anthropic's Messages and Gemini's
generateContent. Unlike chat completions, these carry pictures inside tool results and signed
thoughts in later turns.

Requests go through looktwice's own HTTP layer rather than the providers' Python clients, for three
reasons. Exact bytes: google-genai re-encodes pictures in URL-safe base64, while a recorded run must
name the bytes that the model saw. One retry policy: if a server asks to wait longer than two
minutes, openai gives up and anthropic waits, and both retry outside the limits of the run. One
payment per request: the cache, the budget and a stop all count calls, not attempts.

Here: functions that convert requests and replies between chat completions and each protocol, which
batches also use, and the models that use them.
Not here: messages and chat completions themselves (`pipelines.models`), batch endpoints
(`batches`), and serving these protocols to clients (`integrations`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
