"""What a provider attaches to an assistant's turn beyond the protocol, such as reasoning and
signatures: it goes back in the next request as it came.

Thinking models refuse a conversation, or think worse, where it is missing: Gemini 3 wants the
`extra_content` of its tool calls, Kimi and DeepSeek `reasoning_content`, OpenRouter
`reasoning_details`, LiteLLM `thinking_blocks`, Mistral the thoughts among the parts of `content`.
So every field goes back that is not known to be refused, also one of tomorrow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any

from looktwice.pipelines.json_input import first_non_finite

Json = dict[str, Any]

NOT_RETURNED = {
    "role",
    "content",
    "tool_calls",
    "refusal",
    "annotations",
    "audio",
    "images",
    "videos",
    "function_call",
    "parsed",
    "executed_tools",
    "thought_summary",
}
"""Fields of a reply's message that do not go back among what is attached.

`role`, `content` and `tool_calls` are written anew. `refusal` is kept in `Reply.refusal`; servers
other than OpenAI's refuse it. `annotations` (citations), `parsed` and `executed_tools` (what Groq
ran itself) are in no schema of a request. `audio` goes back as an id alone, and generated `images`
and `videos` not at all. A `thought_summary` is what Gemini's batches return beside the text, and no
request takes. A `function_call`, the older form of a tool call, goes back as one of `tool_calls`.
"""
OF_CALL = {"id", "index", "function"}
"""Fields of a tool call that are written anew; `index` repeats the order of the calls."""
PARTS_NOT_RETURNED = re.compile(r"refusal|tool_|function_|.*(image|audio|video|file)")
"""The types of parts of a content that do not go back, for the same reasons."""


def attached_to_turn(message: Mapping[str, Any]) -> Json:
    """The provider's own fields of an assistant's message, which go back to it as they came.

    `content` among them is a list of parts that are more than texts, such as thoughts with a
    signature. Raises TypeError and AttributeError for what is no message.
    """
    own = _attached(message, NOT_RETURNED, empty_texts=bool(message.get("tool_calls")))
    parts = list[Json]()
    for part in parts_of(message.get("content")):
        kind = str(part.get("type", "text"))
        if kind == "text":
            plain = {"type": "text", "text": part.get("text") or ""}
            parts.append(plain | _attached(part, NOT_RETURNED | plain.keys()))
        elif not PARTS_NOT_RETURNED.match(kind) and first_non_finite(part) is None:
            parts.append(part)
    is_more = any(part.keys() != {"type", "text"} for part in parts)
    return own | ({"content": parts} if is_more else {})


def parts_of(content: Any) -> list[Json]:
    """The parts of a content, of which a text is one. Raises TypeError for what is no content."""
    if not isinstance(content, list):
        content = [] if content is None else [content]
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    if not all(isinstance(part, dict) for part in parts):
        raise TypeError("the content is neither a text nor a list of parts")
    return parts


def attached_to_call(call: Mapping[str, Any]) -> Json:
    """The provider's own fields of a tool call, such as a thought signature; those inside of its
    `function` stand there."""
    own = _attached(call, OF_CALL)
    if own.get("type") == "function":
        del own["type"]
    function = _attached(call["function"], {"name", "arguments", "index"})
    return own | ({"function": function} if function else {})


def _attached(node: Mapping[str, Any], without: Set[str], empty_texts: bool = False) -> Json:
    """The fields that hold something that JSON knows. An empty text counts beside calls: Kimi and
    DeepSeek ask for `reasoning_content` there, also where nothing was thought."""
    return {
        name: value
        for name, value in node.items()
        if name not in without
        and (holds_something(value) or (empty_texts and value == ""))
        and first_non_finite(value) is None
    }


def holds_something(value: Any) -> bool:
    """Whether there is anything in a value but null, false and what is empty."""
    if isinstance(value, dict | list):
        return any(map(holds_something, value.values() if isinstance(value, dict) else value))
    return bool(value)
