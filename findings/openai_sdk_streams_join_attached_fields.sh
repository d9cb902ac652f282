#!/usr/bin/env bash
# OpenAI's Python SDK, fields that a provider attaches to a streamed turn.
#
# Guess: the SDK's own accumulation of a stream (client.chat.completions.stream, here its state
#   without a network) puts a turn together as the same server would have sent it whole.
# What happens: every text of a field that it does not know is joined to the one before, also where
#   it is no piece but a name or a signature: "format": "f" becomes "ff", a thought signature that two
#   chunks repeat becomes "SS", and parallel tool calls of one index, as Gemini's compatible endpoint
#   streams them, become one call of the tool "zoomcrop". A list whose entries have no `index`, such
#   as LiteLLM's `thinking_blocks`, ends in a RuntimeError.
# Why it matters: thinking models want their signatures and reasoning back as they came. An agent
#   that looks at images through streams of this SDK sends others back, is refused, or is measured
#   without its earlier thoughts; whole replies are not affected.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "openai==3.57.0"
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

print("openai", version("openai"))


def joined(*deltas):
    state = ChatCompletionStreamState()
    for delta, finish in [*((delta, None) for delta in deltas), ({}, "stop")]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk | {"choices": [choice]}))
    return state.get_final_completion().choices[0].message.model_dump(exclude_none=True)


def detail(text):
    return {"type": "reasoning.text", "text": text, "index": 0, "format": "f"}


plain = joined({"role": "assistant", "reasoning_content": "h"}, {"reasoning_content": "m"})
print("a text in pieces:", plain["reasoning_content"])
assert plain["reasoning_content"] == "hm"

[entry] = joined({"reasoning_details": [detail("h")]}, {"reasoning_details": [detail("m")]})[
    "reasoning_details"
]
print("reasoning_details:", entry)
assert entry == {"type": "reasoning.text", "text": "hm", "index": 0, "format": "ff"}

signature = {"extra_content": {"google": {"thought_signature": "S"}}}
twice = joined(signature, signature)["extra_content"]["google"]["thought_signature"]
print("a signature in two chunks:", twice)
assert twice == "SS"

calls = [
    {"index": 0, "id": name[0], "type": "function", "function": {"name": name, "arguments": "{}"}}
    for name in ("zoom", "crop")
]
made = joined({"tool_calls": calls[:1]}, {"tool_calls": calls[1:]})["tool_calls"]
print("two calls of index 0:", made)
assert [call["function"]["name"] for call in made] == ["zoomcrop"]

block = {"type": "thinking", "thinking": "h"}
try:
    joined({"thinking_blocks": [block]}, {"thinking_blocks": [block]})
except RuntimeError as exc:
    print("thinking_blocks: RuntimeError:", exc)
else:
    raise SystemExit("thinking_blocks without an index are now put together")
PYTHON
