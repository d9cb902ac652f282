"""A chat server that checks returned turns, as servers of reasoning models do."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
RETURNED = ("content", "tool_calls")
"""Fields of a turn that must be returned even if they are empty."""


@dataclass
class StrictServer:
    """Replies with these `messages`, one a turn."""

    messages: Sequence[Json]
    withheld: Sequence[str] = ()
    bodies: list[Json] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    url: str = ""

    def expected(self, message: Json) -> Json:
        """Return a turn as the client must send it back: empty fields can be missing, `withheld`
        ones must be."""
        turn = {"role": "assistant", "content": None} | {
            name: value
            for name, value in message.items()
            if name in RETURNED or (value not in (None, [], {}) and name not in self.withheld)
        }
        return {name: value for name, value in turn.items() if value or name != "tool_calls"}

    def answer(self, body: Json) -> tuple[int, Json]:
        """Return the next message, or the reason for refusing the conversation."""
        self.bodies.append(body)
        turns = [turn for turn in body["messages"] if turn["role"] == "assistant"]
        for number, (turn, said) in enumerate(zip(turns, self.messages, strict=False)):
            if turn != self.expected(said):
                fault = f"turn {number} is not what I said: {json.dumps(turn)}"
                self.refused.append(fault)
                return 400, {"error": {"message": fault, "type": "invalid_request_error"}}
        message = self.messages[min(len(turns), len(self.messages) - 1)]
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        usage = {"prompt_tokens": 500, "completion_tokens": 7, "total_tokens": 507}
        made = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"]}
        return 200, {**made, "choices": [choice], "usage": usage}


@contextmanager
def strict_server(*messages: Json, withheld: Sequence[str] = ()) -> Iterator[StrictServer]:
    """Run a server that replies with these messages, one a turn."""
    strict = StrictServer(messages, withheld)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            status, answer = strict.answer(json.loads(self.rfile.read(length)))
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
    strict.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield strict
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
