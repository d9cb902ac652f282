#!/usr/bin/env bash
# Guess: an evaluation that asks Claude through anthropic's client with `temperature=0`, as most
# harnesses do, runs with the client's next major version, or gets an error that the option is obsolete.
# What happens: since 1.0 `messages.create` has no `temperature`, `top_p` and `top_k`: a TypeError
# ("unexpected keyword argument") before anything is sent, which does not state the reason. The same
# value in `extra_body` is sent as before.
# Why it matters: a harness that catches errors of calls counts every question as failed, and one
# that drops the argument to run again measures at another temperature than its earlier results.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 0.125.0 2.14.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "anthropic==$version"
done
cat > "$folder/ask.py" <<'PYTHON'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import anthropic

MESSAGE = {
    "id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None,
    "content": [{"type": "text", "text": "A"}], "stop_reason": "end_turn",
    "usage": {"input_tokens": 5, "output_tokens": 1},
}
asked = []


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        data = json.dumps(MESSAGE).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.server_port}", api_key="none")
asks = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "A or B?"}]}
print("anthropic", anthropic.__version__)
for name in ("temperature", "top_p", "top_k"):
    try:
        client.messages.create(**asks, **{name: 1})
        print(f"{name}=1: sent as", asked[-1][name])
    except TypeError as exc:
        print(f"{name}=1:", exc)
kept = len(asked)
client.messages.create(**asks, extra_body={"temperature": 1})
print("in extra_body: sent as", asked[-1]["temperature"])
assert kept == (3 if sys.argv[1] == "0.125.0" else 0), asked
assert asked[-1]["temperature"] == 1
PYTHON
for version in 0.125.0 2.14.0; do
    "$folder/$version/bin/python" "$folder/ask.py" "$version"
done
