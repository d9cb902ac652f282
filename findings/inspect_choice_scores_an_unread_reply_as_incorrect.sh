#!/bin/bash
# Guess: inspect_ai's `choice()` gives a reply in which it finds no choice the value N ("no answer"),
#   which the package has for that, so that wrong and unreadable replies can be distinguished by value.
# What happens: N is given to an empty completion alone. A reply without "ANSWER: X" gets I, as a wrong
#   choice does. `answer` distinguishes them: it is empty, where a wrong choice has a letter; so
#   does `reason`, in logs of this year.
#   The accuracy and the list of samples by value do not separate the two kinds of reply.
# Why it matters: models that explain what they see, rather than name a letter, lose all their points
#   to the format, and the log looks as if they had misperceived the image. Count empty answers before you compare.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q inspect-ai==0.3.285
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import sys

import inspect_ai
from inspect_ai.model import ChatMessageUser, ModelOutput
from inspect_ai.scorer import Target, choice
from inspect_ai.solver import TaskState


def score(reply, marked=None):
    state = TaskState(
        model="mockllm/model",
        sample_id="q",
        epoch=1,
        input="Which is nearer?",
        messages=[ChatMessageUser(content="Which is nearer?")],
        choices=["the cat", "the dog"],
        output=ModelOutput.from_content("mockllm/model", reply),
    )
    for place in range(2) if marked is not None else ():
        state.choices.mark_choice(place, place == marked)
    found = asyncio.run(choice()(state, Target("A")))
    return found.value, found.answer


cases = {
    "a right choice": (score("ANSWER: A", 0), ("C", "A")),
    "a wrong choice": (score("ANSWER: B", 1), ("I", "B")),
    "no choice found": (score("The cat is nearer to the camera."), ("I", "")),
    "an empty reply": (score(""), ("N", "")),
}
print(f"inspect_ai {inspect_ai.__version__}: value and answer of")
for name, (found, wanted) in cases.items():
    print(f"  {name}: {found[0]} {found[1]!r}")
    if found != wanted:
        sys.exit(f"no longer so: expected {wanted}")
PYTHON
