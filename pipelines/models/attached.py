"""Fields that a provider attaches to an assistant's turn beyond the protocol, such as reasoning and
signatures. They are sent back unchanged in the next request.

Without them, thinking models reject a conversation or reason worse: Gemini 3 needs the
`extra_content` of its tool calls, Kimi and DeepSeek `reasoning_content`, OpenRouter
`reasoning_details`, LiteLLM `thinking_blocks`, Mistral the thoughts among the parts of `content`.
So every field is sent back unless it is known to be rejected, including fields not known yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any

from looktwice.pipelines.json_input import find_non_finite

Json = dict[str, Any]

DROPPED_FIELDS = {
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
"""Fields of a reply's message that are not sent back as attachments.

`role`, `content` and `tool_calls` are rewritten. `refusal` is kept in `Reply.refusal`; servers
other than OpenAI's reject it. `annotations` (citations), `parsed` and `executed_tools` (what Groq
ran itself) are not in any request schema. `audio` is sent back only as an id, and generated
`images` and `videos` are dropped. A `thought_summary` is returned by Gemini's batches next to the
text, and no request accepts it. A `function_call`, the older form of a tool call, is sent back as
one of `tool_calls`.
"""
REWRITTEN_CALL_FIELDS = {"id", "index", "function"}
"""Fields of a tool call that are rewritten; `index` repeats the order of the calls."""
DROPPED_PARTS_PATTERN = re.compile(r"refusal|tool_|function_|.*(image|audio|video|file)")
"""Types of content parts that are not sent back, for the reasons given at DROPPED_FIELDS."""


def read_turn_fields(message: Mapping[str, Any]) -> Json:
    """Return the provider's own fields of an assistant's message, to be sent back unchanged.

    They include `content` if it has other parts than text, such as thoughts with a signature.
    Raises TypeError and AttributeError for anything that is not a message.
    """
    own = _select_fields(message, DROPPED_FIELDS, empty_texts=bool(message.get("tool_calls")))
    parts = list[Json]()
    for part in read_parts(message.get("content")):
        kind = str(part.get("type", "text"))
        if kind == "text":
            plain = {"type": "text", "text": part.get("text") or ""}
            parts.append(plain | _select_fields(part, DROPPED_FIELDS | plain.keys()))
        elif not DROPPED_PARTS_PATTERN.match(kind) and find_non_finite(part) is None:
            parts.append(part)
    is_more = any(part.keys() != {"type", "text"} for part in parts)
    return own | ({"content": parts} if is_more else {})


def read_parts(content: Any) -> list[Json]:
    """Return the parts of a message's content; a plain string is one part. Raises TypeError for
    anything else."""
    if not isinstance(content, list):
        content = [] if content is None else [content]
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    if not all(isinstance(part, dict) for part in parts):
        raise TypeError("the content is neither a string nor a list of parts")
    return parts


def read_call_fields(call: Mapping[str, Any]) -> Json:
    """Return the provider's own fields of a tool call, such as a thought signature; fields inside
    its `function` are returned under `function`."""
    own = _select_fields(call, REWRITTEN_CALL_FIELDS)
    if own.get("type") == "function":
        del own["type"]
    function = _select_fields(call["function"], {"name", "arguments", "index"})
    return own | ({"function": function} if function else {})


def _select_fields(node: Mapping[str, Any], without: Set[str], empty_texts: bool = False) -> Json:
    """Return the non-empty fields that JSON can hold, except those in `without`. In a turn with
    tool calls, empty strings are returned, too: Kimi and DeepSeek require `reasoning_content` even
    if it is empty."""
    return {
        name: value
        for name, value in node.items()
        if name not in without
        and (has_content(value) or (empty_texts and value == ""))
        and find_non_finite(value) is None
    }


def has_content(value: Any) -> bool:
    """Return whether a value contains anything other than null, false and empty values."""
    if isinstance(value, dict | list):
        return any(map(has_content, value.values() if isinstance(value, dict) else value))
    return bool(value)
