"""Conversions that the three protocols share: of pictures, of tool calls, and of assistant's turns,
which are sent back exactly as the provider wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.picture import Payload

Json = dict[str, Any]
TURN_FIELD = "provider_turn"
"""The field of an assistant's message that holds its turn in the provider's own protocol, as
`{"protocol": ..., "items": [...]}`."""


class BareData(Payload):
    """The bytes of a picture, written into a request as plain base64 without a data URL."""

    prefix = ""


class Image(NamedTuple):
    """A picture or video in a chat-completions body: its media type, its base64 data and its data
    URL (each a string, or a payload that is written as one), and the requested `detail`."""

    media_type: str
    data: str | Payload
    url: str | Payload
    detail: str | None

    def refuse_video(self, provider: str) -> None:
        """Raise ModelError if this is a video."""
        if self.media_type.startswith("video/"):
            raise ModelError(f"{provider} takes no videos; send frames (`form: frames`)")


def iterate_parts(content: Any) -> Iterator[str | Image]:
    """Yield the non-empty texts and the pictures in the content of a chat-completions message.
    Raises ModelError for any other part, such as a link to a picture."""
    if isinstance(content, str) or content is None:
        content = [{"type": "text", "text": content or ""}]
    for part in content:
        kind = part.get("type", "text")
        if kind == "text":
            if part["text"]:
                yield part["text"]
        elif kind in ("image_url", "video_url"):
            yield _read_image(part[kind])
        else:
            raise ModelError(f"a turn holds a part of type {kind!r}; send texts and pictures")


def _read_image(node: Json) -> Image:
    url, detail = node["url"], node.get("detail")
    if isinstance(url, Payload):
        bare = BareData(url.data, url.media_type, url.sha, url.note)
        return Image(url.media_type, bare, url, detail)
    head, _, data = url.partition(";base64,")
    if not head.startswith("data:") or not data:
        raise ModelError(f"a picture must be sent as data:...;base64, found {url[:40]!r}")
    return Image(head.removeprefix("data:"), data, url, detail)


def read_text(content: Any) -> str:
    """Join the text parts of an assistant's content; ignore its other parts."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    return "".join(part.get("text") or "" for part in parts if part.get("type", "text") == "text")


def parse_count(counts: Mapping[str, Any], name: str) -> int:
    """Return a count as a number: 0 if it is missing or null, parsed if it is a string."""
    return int(counts.get(name) or 0)


def read_arguments(call: Json) -> Json:
    """Parse the arguments of a chat-completions tool call as an object; wrap arguments that are not
    an object in one, since the protocols accept only objects."""
    written = call["function"].get("arguments") or "{}"
    try:
        given = read_json(written)
    except ValueError:
        given = None
    return given if isinstance(given, dict) else {"arguments": written}


def make_call_json(identifier: str, name: str, arguments: Any) -> Json:
    """Return a tool call in the form of chat completions, with the arguments as JSON text."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return {"id": identifier, "function": {"name": name, "arguments": arguments}}


def refuse_fields(body: Json, provider: str, *names: str) -> None:
    """Raise ModelError if the request uses fields that the provider's protocol lacks."""
    if refused := [name for name in names if name in body]:
        raise ModelError(f"{provider} has no {', '.join(refused)}; leave it out")


def attach_turn(protocol: str, items: Sequence[Json]) -> Json:
    """Return the message field that stores a turn in its provider's form; empty if there are no
    items."""
    return {TURN_FIELD: {"protocol": protocol, "items": list(items)}} if items else {}


def restore_items(
    message: Json,
    protocol: str,
    find_call: Callable[[Json], str | None],
    find_text: Callable[[Json], str | None],
    replace_id: Callable[[Json, str], Json],
) -> list[Json] | None:
    """Return the items of an assistant's turn as the provider of `protocol` wrote them; None if it
    did not write the turn.

    Items are unchanged, with three exceptions. Calls that were not run are left out with everything
    after them, since no result will follow. In a call whose id has changed, `replace_id` sets the
    new id. If the text of the turn has changed, its items with text are left out, and the new text
    replaces the last of them as an item {"text": ...}, which the caller converts. `find_call`
    returns the call id of an item that calls one of the client's tools, `find_text` the visible
    text of an item; both return None for other items.
    """
    kept = message.get(TURN_FIELD) or {}
    if kept.get("protocol") != protocol:
        return None
    calls = list(message.get("tool_calls") or ())
    items: list[Json] = []
    is_cut = False
    for item in kept["items"]:
        identifier = find_call(item)
        if identifier is None:
            items.append(item)
        elif calls:
            call = calls.pop(0)
            items.append(item if identifier in ("", call["id"]) else replace_id(item, call["id"]))
        else:
            is_cut = True
            break
    # the provider refuses a thought that nothing follows
    while is_cut and items and find_call(items[-1]) is None and not find_text(items[-1]):
        items.pop()
    return _replace_text(items, message, find_text)


def _replace_text(
    items: list[Json], message: Json, find_text: Callable[[Json], str | None]
) -> list[Json]:
    texts = [(number, text) for number, item in enumerate(items) if (text := find_text(item))]
    current = read_text(message.get("content"))
    if "".join("".join(text for _, text in texts).split()) == "".join(current.split()):
        return items
    last = texts[-1][0] if texts else len(items)
    old = {number for number, _ in texts}
    new = [{"text": current}] if current else []
    before = [item for number, item in enumerate(items[:last]) if number not in old]
    return [*before, *new, *(item for n, item in enumerate(items[last:], last) if n not in old)]


def merge_fields(body: Json, extra: Mapping[str, Any]) -> Json:
    """Return the body with the extra fields added; a mapping is merged with an existing mapping of
    the same name."""
    merged = dict(body)
    for name, value in extra.items():
        existing = merged.get(name)
        is_inner = isinstance(existing, dict) and isinstance(value, Mapping)
        merged[name] = merge_fields(existing, value) if is_inner and existing is not None else value
    return merged


def make_completion_json(
    model: Any, reason: Any, message: Json, usage: Json, **fields: Any
) -> Json:
    """Return a chat completion with one choice; `fields` are further fields of the choice."""
    choice = {"message": {"role": "assistant", **message}, "finish_reason": reason, **fields}
    return {"model": model, "choices": [choice], "usage": usage}


def make_usage_json(
    prompt_tokens: int, output_tokens: int, cached_tokens: int, thinking_tokens: int
) -> Json:
    """Return token counts in the form of chat completions; `prompt_tokens` includes cached tokens,
    and `output_tokens` thinking tokens."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": thinking_tokens},
    }
