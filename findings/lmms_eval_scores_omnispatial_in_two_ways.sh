#!/usr/bin/env bash
# One reply to OmniSpatial under the two tasks of lmms-eval that are named after it.
#
# Guess: `omnispatial` and `omni_spatial`, both in one release for the same 1,533 questions, agree on which
#   replies are right, and a reply that names no choice is wrong.
# What happens: `omnispatial` looks for "Answer: X" and takes A where there is none, so that "I cannot tell."
#   is right wherever the key is A, and "The answer is B." is wrong for B. It compares the letter as it is
#   written: "answer: b" is wrong. `omni_spatial` takes the first character: "The answer is B." is T, and
#   "Answer: B" is A, that is, right for the key A.
# Why it matters: a model that refuses has the share of A of the keys as its score, and the same replies
#   give two accuracies under one name.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check --no-deps 'lmms-eval==0.7.3'
cd "$folder"
venv/bin/python - <<'PYTHON'
import ast
import json
import re
import typing
from importlib.metadata import distribution

release = distribution("lmms-eval")


def load(file, names, **known):
    """Return functions of an installed file, without its imports, which download the set."""
    tree = ast.parse(release.locate_file(file).read_text())
    body = [node for node in tree.body if getattr(node, "name", "") in names]
    space = {**vars(typing), "re": re, "json": json, **known}
    exec(compile(ast.Module(body, []), file, "exec"), space)
    return space


one = load(
    "lmms_eval/tasks/omnispatial/utils.py",
    ("omnispatial_process_results",),
    omnispatial_doc_to_text=lambda doc: "",
    config={"metadata": {"eval_type": "re"}},  # as in its YAML
)["omnispatial_process_results"]
two = load(
    "lmms_eval/tasks/omni_spatial/utils.py",
    ("omni_spatial_process_results", "_strip_think"),
)["omni_spatial_process_results"]
print("lmms-eval", release.version)
found = {}
for reply in ("Answer: B", "B", "The answer is B.", "answer: b", "I cannot tell."):
    right = []
    for key in "AB":
        doc = {"id": "0_0", "gt": key, "answer": "AB".index(key), "options": ["left", "right"]}
        doc |= {"question": "Which?", "task_type": "Complex_Logic", "sub_task_type": "x"}
        first = one(doc, [reply])
        first = next(iter(first.values()))
        right += [bool(first["is_correct"]), bool(two(doc, [reply])["omni_spatial_score"]["score"])]
    found[reply] = right
    print(f"{reply!r:20} key A: {right[0]!s:5} {right[1]!s:5}  key B: {right[2]!s:5} {right[3]!s:5}")
assert found == {
    "Answer: B": [False, True, True, False],
    "B": [True, False, False, True],
    "The answer is B.": [True, False, False, False],
    "answer: b": [False, True, False, False],
    "I cannot tell.": [True, False, False, False],
}
PYTHON
