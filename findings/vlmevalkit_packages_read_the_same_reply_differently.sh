#!/bin/bash
# Guess: the two packages of VLMEvalKit that pip installs, ms-vlmeval 0.0.20 (2026-05) and nvidia-vlmeval 26.3
#   (2026-03), read a multiple-choice reply alike: both call it `can_infer` and date from one spring.
# What happens: nvidia-vlmeval has the rules of 2024 to mid 2025, so that a lone letter counts
#   wherever it stands. ms-vlmeval has those of August 2025, so that it counts only among the last
#   four words. "(C) because it is closer to the camera than the others" is C for one, nothing for the
#   other, which then asks a judge model, scores a miss, or draws an answer at random.
# Why it matters: the share of replies read without a judge, and the accuracy of an exact-match run,
#   depend on the package and not only on the model. Name package and version with a number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
for package in ms-vlmeval==0.0.20 nvidia-vlmeval==26.3; do
    "$folder/venv/bin/pip" install -q --no-deps --target "$folder/${package%%==*}" "$package"
done
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util
import logging
import sys
import types
from pathlib import Path


def load(package):
    """The module of the rules, without the rest of the toolkit, which needs torch."""
    for name in ("vlmeval", "vlmeval.utils", "vlmeval.smp", "vlmeval.smp.log"):
        sys.modules[name] = types.ModuleType(name)
    for name in ("vlmeval.smp", "vlmeval.smp.log"):
        sys.modules[name].get_logger = logging.getLogger
    path = Path(sys.argv[1]) / package / "vlmeval" / "utils" / "matching_util.py"
    spec = importlib.util.spec_from_file_location("vlmeval.utils.matching_util", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.can_infer


expected = {
    "The answer is B.": ("B", "B"),
    "(C) because it is closer to the camera than the others": (False, "C"),
    "The answer is (B), as it is nearest of all of them": (False, "B"),
    "." * 60 + " point c": (False, "C"),
}
readers = load("ms-vlmeval"), load("nvidia-vlmeval")
print("ms-vlmeval 0.0.20 | nvidia-vlmeval 26.3 | reply")
for reply, wanted in expected.items():
    choices = {letter: f"Point {letter}" for letter in "ABCD"}
    read = tuple(can_infer(reply, dict(choices)) for can_infer in readers)
    print(f"{read[0]!s:17} | {read[1]!s:19} | {reply}")
    if read != wanted:
        sys.exit(f"no longer so: expected {wanted}")
PYTHON
