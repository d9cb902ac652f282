"""Data that a model's server expects back in the next request, such as signatures and reasoning,
packed into the opaque field that a protocol has for it: `encrypted_content` of Responses,
`signature` and `data` of Messages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from looktwice.extras.integrations.protocols.questions import MAX_VALUES, Json
from looktwice.pipelines.json_input import read_json, write_json
from looktwice.pipelines.model import Message, Reply, ToolCall
from looktwice.pipelines.models.attached import has_content, read_call_fields, read_turn_fields

PACKED_PREFIX = "looktwice."
"""The prefix of every packed string; a string without this prefix comes from another server."""


def has_attached(reply: Reply) -> bool:
    """Return whether a provider attached fields to a reply or to one of its calls."""
    return bool(reply.attached or any(call.attached for call in reply.tool_calls))


def pack_attached(reply: Reply) -> str:
    """Pack the fields that a provider attached to a reply and its calls, and the calls' original
    arguments."""
    calls = {
        call.id: {"arguments": call.arguments, "attached": dict(call.attached)}
        for call in reply.tool_calls
    }
    plain = write_json({"turn": dict(reply.attached), "calls": calls})
    return PACKED_PREFIX + base64.urlsafe_b64encode(plain.encode()).decode()


def unpack_attached(text: str) -> Json | None:
    """Unpack a string that `pack_attached` returned; return None for a string from another server.
    Raises ValueError if the string was changed."""
    if not text.startswith(PACKED_PREFIX):
        return None
    try:
        plain = base64.b64decode(text.removeprefix(PACKED_PREFIX), b"-_", validate=True)
        packed = read_json(plain, MAX_VALUES)
        return {"turn": dict(packed["turn"]), "calls": dict(packed["calls"])}
    except (binascii.Error, ValueError, LookupError, TypeError) as exc:
        raise ValueError(
            "a thought has been changed since it was sent; send it back unchanged"
        ) from exc


def make_turn(
    texts: Sequence[str], calls: Sequence[ToolCall], packed: Sequence[Json], thought: str = ""
) -> Message:
    """Make an assistant's turn from its texts and calls, with the fields that were `packed` for it.

    A `thought` that a client sends as plain text is attached as `reasoning_content`. Raises
    ValueError if packed values have an unexpected form.
    """
    turn: Json = {"reasoning_content": thought} if thought else {}
    known: Json = {}
    for each in packed:
        turn |= each["turn"]
        known |= each["calls"]
    try:
        attached = read_turn_fields({**turn, "tool_calls": list(calls)})
        whole = tuple(_restore(call, known.get(call.id) or {}) for call in calls)
    except (TypeError, AttributeError, LookupError) as exc:
        raise ValueError(
            "a thought has been changed since it was sent; send it back unchanged"
        ) from exc
    return Message("assistant", tuple(texts) or ("",), whole, attached=attached)


def _restore(call: ToolCall, known: Mapping[str, Any]) -> ToolCall:
    """Return a call with its attached fields, and with the model's original arguments if the
    client's arguments are the same JSON value."""
    written = str(known.get("arguments") or "")
    attached = read_call_fields({"function": {}, **(known.get("attached") or {})})
    return ToolCall(
        call.id,
        call.name,
        written if is_same_json(written, call.arguments) else call.arguments,
        attached if has_content(attached) else {},
    )


def is_same_json(first: str, second: str) -> bool:
    """Return whether two JSON texts have the same value."""
    try:
        return bool(read_json(first) == read_json(second))
    except ValueError:
        return False
