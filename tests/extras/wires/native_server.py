"""A server that speaks the protocols of OpenAI's Responses, Anthropic's Messages and Gemini's
generateContent, and refuses what the real ones refuse: a turn of theirs that was changed, a result
without its call or out of place, and a picture where none may be."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
CALLS = ("function_call", "tool_use", "functionCall")


class Refused(Exception):
    """What the provider says about a request that it does not accept."""


def check_responses(body: Json, said: Sequence[Json]) -> int:
    """Return how many of the replies `said` a request contains. Raises Refused."""
    known = [item for reply in said for item in reply["output"]]
    outputs, calls, kept = list[str](), list[str](), list[Json]()
    for item in body["input"]:
        if item.get("type") == "function_call_output":
            if item["call_id"] not in calls:
                raise Refused(f"No tool call found for function call output {item['call_id']}.")
            outputs.append(item["call_id"])
        elif item.get("role") == "user":
            continue
        else:
            if "input_image" in json.dumps(item):
                raise Refused("Invalid value: 'input_image' in a turn of the assistant.")
            kept.append(item)
            calls += [item["call_id"]] if item["type"] == "function_call" else []
    if unanswered := [call for call in calls if call not in outputs]:
        raise Refused(f"No tool output found for function call {unanswered[0]}.")
    if kept != known[: len(kept)]:
        wrong = next(n for n, item in enumerate(kept) if [item] != known[n : n + 1])
        raise Refused(f"Item {wrong} was provided without its required 'reasoning' item.")
    lengths = [sum(len(r["output"]) for r in said[:n]) for n in range(len(said) + 1)]
    if len(kept) not in lengths:
        raise Refused("Item was provided without its required following item.")
    return lengths.index(len(kept))


def check_messages(body: Json, said: Sequence[Json]) -> int:
    """Return how many of the replies `said` a request contains. Raises Refused."""
    turns = body["messages"]
    number = 0
    if "tool_use" in json.dumps(turns) and not body.get("tools"):
        raise Refused("Requests which include `tool_use` blocks must define tools.")
    for turn, following in zip(turns, [*turns[1:], None], strict=True):
        blocks = turn["content"]
        if not blocks or any(block.get("text") == "" for block in blocks):
            raise Refused("text content blocks must be non-empty")
        if turn["role"] != "assistant":
            results = [block["type"] == "tool_result" for block in blocks]
            if results != sorted(results, reverse=True):
                raise Refused("tool_result blocks must come first in a user's turn")
            continue
        if any(block["type"] == "image" for block in blocks):
            raise Refused("image blocks are only allowed in user messages")
        if blocks != said[number]["content"]:
            raise Refused(f"messages.{number}: `thinking` blocks cannot be modified")
        number += 1
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        answers = following["content"] if following else []
        given = [block["tool_use_id"] for block in answers if block["type"] == "tool_result"]
        if asked != given:
            raise Refused(f"`tool_use` ids without `tool_result` blocks after: {asked} {given}")
    return number


def check_contents(body: Json, said: Sequence[Json]) -> int:
    """Return how many of the replies `said` a request contains. Raises Refused."""
    contents = body["contents"]
    number = 0
    for content, following in zip(contents, [*contents[1:], None], strict=True):
        parts = content["parts"]
        if content["role"] != "model":
            continue
        if any("inlineData" in part for part in parts):
            raise Refused("inline_data is not supported in a turn of the model.")
        known = said[number]["candidates"][0]["content"]["parts"]
        if len(parts) != len(known):
            raise Refused("a turn of the model has other parts than it had.")
        for part, own in zip(parts, known, strict=True):
            if part.get("thoughtSignature") != own.get("thoughtSignature"):
                raise Refused("Function call is missing a thought_signature in functionCall parts.")
        if parts != known:
            raise Refused("Corrupted thought signature.")
        number += 1
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        asked = [(call["name"], call.get("id")) for call in calls]
        answers = following["parts"] if following else []
        results = [a["functionResponse"] for a in answers if "functionResponse" in a]
        given = [(result["name"], result.get("id")) for result in results]
        if asked != given:
            raise Refused("the number of function response parts must equal that of the calls.")
    return number


CHECKS = {
    "/v1/responses": check_responses,
    "/v1/messages": check_messages,
    "/v1beta/models/m:generateContent": check_contents,
}


@dataclass
class NativeServer:
    """Replies with `said`, one a turn, and keeps the bodies and headers of all requests."""

    said: Sequence[Json]
    statuses: Sequence[int] = ()
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    url: str = ""
    is_strict: bool = True

    def answer(self, path: str, data: bytes) -> tuple[int, Json]:
        """Return the next reply, or the reason for refusing the request."""
        self.bodies.append(data)
        self.paths.append(path)
        number = len(self.bodies) - 1
        if number < len(self.statuses) and self.statuses[number] != 200:
            return self.statuses[number], {"error": {"message": "busy", "type": "overloaded"}}
        try:
            turn = CHECKS[path](json.loads(data), self.said) if self.is_strict else 0
        except Refused as exc:
            self.refused.append(str(exc))
            return 400, {"error": {"message": str(exc), "type": "invalid_request_error"}}
        return 200, self.said[min(turn, len(self.said) - 1)]


@contextmanager
def native_server(said: Sequence[Json], statuses: Sequence[int] = ()) -> Iterator[NativeServer]:
    """Run a server that replies with these bodies, one a turn."""
    native = NativeServer(said, statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.give(200, {"data": []})

        def do_POST(self) -> None:
            native.headers.append({k.lower(): v for k, v in self.headers.items()})
            data = self.rfile.read(int(self.headers["Content-Length"]))
            self.give(*native.answer(self.path, data))

        def give(self, status: int, answer: Json) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    native.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield native
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
