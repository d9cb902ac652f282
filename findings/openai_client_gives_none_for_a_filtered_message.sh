#!/usr/bin/env bash
# Guess: openai's Python client types a completion, so that a 200 of a compatible server whose
# filtered choice has "message": null (as gateways to Gemini send), or whose "choices" are null, is
# refused with an error that says so.
# What happens: nothing is checked. The call succeeds, `choices[0].message` is None, and where
# choices are null `completion.choices` is None. The next line of a harness, `.message.content`,
# raises AttributeError or TypeError, which many harnesses count as a failed call and ask again.
# Why it matters: pictures that a provider's filter takes are then missing from a study of what a
# model sees, or scored as wrong, instead of being counted as filtered.
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

VERDICT = {"index": 0, "finish_reason": "content_filter", "message": None}
BODIES = [
    {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [VERDICT]},
    {"id": "2", "object": "chat.completion", "created": 0, "model": "m", "choices": None},
]
asked = []


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        data = json.dumps(BODIES[len(asked)]).encode()
        asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
turns = [{"role": "user", "content": "What is in the picture?"}]
first = client.chat.completions.create(model="m", messages=turns)
second = client.chat.completions.create(model="m", messages=turns)
print("openai", openai.__version__)
print("message of the filtered choice:", first.choices[0].message)
print("choices where they are null:", second.choices)
assert len(asked) == 2, asked
assert first.choices[0].message is None
assert second.choices is None
PYTHON
