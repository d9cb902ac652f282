#!/usr/bin/env bash
# Guess: `client.responses.stream(...)` of openai's client returns a truncated or filtered reply
# like the whole response does, as a response of status "incomplete"; and a stream that breaks off
# with the documented `error` event raises an error, as it does for chat completions.
# What happens: the opposite in both cases. `get_final_response()` raises RuntimeError ("Didn't
# receive a `response.completed` event.") for a reply that reached its token limit or a filter,
# although the last event holds its text and its billed tokens. And the documented error event
# raises nothing with `create(stream=True)`: the loop over the text ends, as if the model had said
# nothing.
# Why it matters: thinking models often reach the limit on hard images. Streamed, those replies
# become failed calls that a harness asks (and pays) again, and failed calls become empty answers
# that are scored as wrong.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "openai==3.57.0"
"$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import openai

TEXT = {"type": "output_text", "text": "The red mark is", "annotations": [], "logprobs": []}
MESSAGE = {"type": "message", "id": "m1", "role": "assistant", "status": "incomplete"}
RESPONSE = {
    "id": "r1", "object": "response", "created_at": 0, "model": "m", "error": None,
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {},
    "incomplete_details": None, "instructions": None, "temperature": None, "top_p": None,
}
USAGE = {
    "input_tokens": 500, "output_tokens": 4, "total_tokens": 504,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
BEGUN = RESPONSE | {"status": "in_progress", "output": []}
CUT = RESPONSE | {
    "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
    "output": [MESSAGE | {"content": [TEXT]}], "usage": USAGE,
}
PLACE = {"item_id": "m1", "output_index": 0, "content_index": 0}
TRUNCATED = [
    {"type": "response.created", "response": BEGUN},
    {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE | {"content": []}},
    {"type": "response.content_part.added", **PLACE, "part": TEXT | {"text": ""}},
    {"type": "response.output_text.delta", **PLACE, "delta": TEXT["text"], "logprobs": []},
    {"type": "response.output_text.done", **PLACE, "text": TEXT["text"], "logprobs": []},
    {"type": "response.content_part.done", **PLACE, "part": TEXT},
    {"type": "response.output_item.done", "output_index": 0, "item": CUT["output"][0]},
    {"type": "response.incomplete", "response": CUT},
]
FAILED = [
    {"type": "response.created", "response": BEGUN},
    {"type": "error", "code": "server_error", "message": "the model failed", "param": None},
]


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        events = FAILED if body["input"] == "fail" else TRUNCATED
        kind, data = "application/json", json.dumps(CUT)
        if body.get("stream"):
            numbered = [event | {"sequence_number": n} for n, event in enumerate(events)]
            kind = "text/event-stream"
            data = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in numbered)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *words):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
print("openai", openai.__version__)
whole = client.responses.create(model="m", input="cut")
print("whole:", whole.status, repr(whole.output_text), whole.usage.output_tokens, "tokens")
try:
    with client.responses.stream(model="m", input="cut") as stream:
        said = stream.get_final_response().status
except RuntimeError as exc:
    said = repr(exc)
print("streamed:", said)
events = list(client.responses.create(model="m", input="fail", stream=True))
text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
print("after the error event:", [event.type for event in events], "text", repr(text))
assert (whole.status, whole.output_text) == ("incomplete", "The red mark is")
assert "response.completed" in said, said
assert [event.type for event in events] == ["response.created", "error"] and text == ""
PYTHON
