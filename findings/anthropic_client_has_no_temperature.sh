#!/usr/bin/env bash
# Anthropic's Python client, sampling settings.
#
# Guess: an evaluation that asks for greedy replies passes temperature=0, as to every other client.
# What happens: from version 1.0 on, `messages.create` has none of temperature, top_p and top_k, and
#   raises a TypeError for them; 0.125 still takes them. They can only be sent through `extra_body`,
#   unchecked.
# Why it matters: harnesses pin "temperature 0" in their papers and configurations. An upgrade of the
#   client ends such a run, or, where a wrapper drops what the client does not take, silently
#   samples: the same question gets different answers, and differences between prompts drown in it.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cat > "$folder/show.py" <<'PYTHON'
import inspect
from importlib.metadata import version

import anthropic

client = anthropic.Anthropic(api_key="none", base_url="http://127.0.0.1:9", max_retries=0)
names = set(inspect.signature(client.messages.create).parameters)
found = sorted({"temperature", "top_p", "top_k"} & names)
print("anthropic", version("anthropic"), "takes", found or "no sampling settings")
print("  and extra_body:", "extra_body" in names)
try:
    client.messages.create(
        model="m", max_tokens=9, temperature=0, messages=[{"role": "user", "content": "?"}]
    )
except TypeError as exc:
    print("  temperature=0: TypeError:", exc)
    kind = "TypeError"
except anthropic.APIConnectionError:
    print("  temperature=0: accepted, and would be sent")
    kind = "sent"
is_new = int(version("anthropic").split(".")[0]) >= 1
assert found == ([] if is_new else ["temperature", "top_k", "top_p"])
assert kind == ("TypeError" if is_new else "sent")
PYTHON
for release in 0.125.0 1.0.0 2.14.0; do
  python3 -m venv "$folder/$release"
  "$folder/$release/bin/pip" install --quiet --disable-pip-version-check "anthropic==$release"
  "$folder/$release/bin/python" "$folder/show.py"
done
