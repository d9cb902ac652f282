#!/usr/bin/env bash
# LiteLLM, reasoning that a provider attaches to a turn and wants back.
#
# Guess: a turn that a client gives back exactly as `litellm.completion` returned it reaches the
#   provider as the provider sent it, since LiteLLM names OpenRouter among its providers.
# What happens: `reasoning_details` and the `extra_content` of a message (thought signatures of
#   Gemini 3) come to the client inside of `provider_specific_fields`, and go back to the provider
#   under that name, for openrouter/ as for openai/ models: the provider never sees its own fields
#   again. `reasoning_content`, and the `extra_content` of a tool call, keep their names.
# Why it matters: thinking models answer a second look worse, or refuse it, without their encrypted
#   reasoning. A harness that looks at images through LiteLLM measures the model without it and no
#   error says so.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "litellm==1.110.2"
LITELLM_LOCAL_MODEL_COST_MAP=True "$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

DETAILS = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]
SIGNED = {"google": {"thought_signature": "S"}}
CALL = {"id": "a", "type": "function", "function": {"name": "zoom", "arguments": "{}"}}
SAID = {
    "role": "assistant",
    "content": None,
    "reasoning_content": "hm",
    "reasoning_details": DETAILS,
    "extra_content": SIGNED,
    "tool_calls": [CALL | {"extra_content": SIGNED}],
}
asked = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        choice = {"index": 0, "message": SAID, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
        data = json.dumps(whole | {"choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=server.serve_forever, daemon=True).start()

import litellm

print("litellm", version("litellm"))
url = f"http://127.0.0.1:{server.server_address[1]}/v1"
tools = [{"type": "function", "function": {"name": "zoom", "parameters": {"type": "object"}}}]
for model in ("openrouter/m", "openai/m"):
    settings = {"model": model, "api_base": url, "api_key": "none", "tools": tools}
    turns = [{"role": "user", "content": "Which?"}]
    turn = litellm.completion(messages=turns, **settings).choices[0].message.model_dump()
    result = {"role": "tool", "tool_call_id": "a", "content": "a crop"}
    litellm.completion(messages=[*turns, turn, result], **settings)
    back = asked[-1]["messages"][1]
    print(model, "gets back", json.dumps(back))
    assert back["reasoning_content"] == "hm"
    assert back["tool_calls"][0]["extra_content"] == SIGNED
    assert "reasoning_details" not in back and "extra_content" not in back
    assert back["provider_specific_fields"]["reasoning_details"] == DETAILS
    assert back["provider_specific_fields"]["extra_content"] == SIGNED
server.shutdown()
PYTHON
