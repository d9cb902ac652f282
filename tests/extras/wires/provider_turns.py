"""Six turns of an agent in each provider's own words: signed thoughts, parallel calls, a tool that
the provider runs itself, and an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Json = dict[str, Any]


class Turn(NamedTuple):
    """A turn: its thought, its text, the boxes that it zooms into, and whether the provider ran a
    tool of its own."""

    thought: str
    text: str
    boxes: Sequence[Sequence[float]]
    searched: bool = False


LEFT, RIGHT = [0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]
TURNS = (
    Turn("Too small.", "I look closer.", [LEFT]),
    Turn("Outside?", "", [[2, 2, 3, 3]]),
    Turn("Again.", "", [LEFT]),
    Turn("Both.", "Both corners.", [RIGHT, LEFT]),
    Turn("I check.", "Let me check.", [[0, 0, 0, 0]], searched=True),
    Turn("Clear.", "ANSWER: A", ()),
)


def responses(turn: Turn, number: int) -> Json:
    """Return a turn as a reply of the Responses protocol."""
    summary = [{"type": "summary_text", "text": turn.thought}]
    items: list[Json] = [
        {
            "type": "reasoning",
            "id": f"rs_{number}",
            "summary": summary,
            "encrypted_content": f"gAAA+/{number}==",
        }
    ]
    if turn.searched:
        action = {"type": "search", "query": "q", "queries": ["q"], "sources": []}
        items += [
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
        ]
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        fields = {"id": f"msg_{number}", "role": "assistant", "status": "completed"}
        items.append({"type": "message", **fields, "content": [part]})
    for index, box in enumerate(turn.boxes):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{number}_{index}",
                "call_id": f"call_{number}_{index}",
                "name": "zoom",
                "arguments": json.dumps({"box": box}),
                "status": "completed",
            }
        )
    usage = {
        "input_tokens": 500,
        "input_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 0},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 530,
    }
    facts = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m-1"}
    return {**facts, "status": "completed", "error": None, "output": items, "usage": usage}


def messages(turn: Turn, number: int) -> Json:
    """Return a turn as a reply of the Messages protocol."""
    blocks: list[Json] = [
        {"type": "thinking", "thinking": turn.thought, "signature": f"Eq+/{number}=="}
    ]
    if number == 1:
        blocks.insert(0, {"type": "redacted_thinking", "data": "Em=="})
    if turn.searched:
        use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
        found: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
        blocks += [use | {"input": {"query": "q"}}, found]
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    for index, box in enumerate(turn.boxes):
        identifier = f"toolu_{number}_{index}"
        blocks.append({"type": "tool_use", "id": identifier, "name": "zoom", "input": {"box": box}})
    usage = {
        "input_tokens": 90,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 400,
        "output_tokens": 30,
        "output_tokens_details": {"thinking_tokens": 20},
    }
    reason = "tool_use" if turn.boxes else "end_turn"
    facts = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1"}
    return {**facts, "content": blocks, "stop_reason": reason, "usage": usage}


def contents(turn: Turn, number: int) -> Json:
    """Return a turn as a reply of generateContent; calls of the fourth turn have no ids."""
    parts: list[Json] = [{"text": turn.thought, "thought": True}]
    if turn.searched:
        parts.append({"executableCode": {"language": "PYTHON", "code": "1"}})
        parts.append({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}})
    if turn.text:
        parts.append({"text": turn.text})
    for index, box in enumerate(turn.boxes):
        call: Json = {"name": "zoom", "args": {"box": box}}
        part: Json = {"functionCall": call if number == 3 else {"id": f"f{number}", **call}}
        # of parallel calls, the first one alone is signed
        parts.append(part if index else part | {"thoughtSignature": f"Cs+/{number}A=="})
    if not turn.boxes:
        parts[-1] |= {"thoughtSignature": "Cg=="}
    usage = {
        "promptTokenCount": 500,
        "cachedContentTokenCount": 400,
        "candidatesTokenCount": 10,
        "thoughtsTokenCount": 20,
        "totalTokenCount": 530,
    }
    content = {"role": "model", "parts": parts}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m-1"}


SAID: dict[str, Callable[[Turn, int], Json]] = {
    "ResponsesAPI": responses,
    "MessagesAPI": messages,
    "GeminiAPI": contents,
}


def replies(name: str) -> list[Json]:
    """Return the six turns in the protocol of a model's class."""
    return [SAID[name](turn, number) for number, turn in enumerate(TURNS)]
