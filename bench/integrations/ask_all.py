"""`python ask_all.py MODULE URL CONTESTANT`: asks every question with the function `ask` of a
module in this folder, in that program's environment, and writes the accuracy."""

import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

FOLDER = Path(os.environ["QUESTIONS"])
ROWS = (FOLDER / "samples.jsonl").read_text(encoding="utf-8").splitlines()


def is_right(line: str) -> bool:
    """Return whether the reply begins with the correct letter."""
    row = json.loads(line)
    choices = [f"({a}) {text}" for a, text in zip("ABCD", row["choices"], strict=True)]
    words = "\n".join([row["question"], *choices, "Answer with one letter."])
    reply = ask(*sys.argv[2:4], words, (FOLDER / row["image"]).read_bytes())
    letter = re.search(r"\b([A-D])\b", reply)
    return bool(letter) and letter[1] == row["answer"]


if __name__ == "__main__":
    ask = import_module(sys.argv[1]).ask
    with ThreadPoolExecutor(4) as pool:
        right = [*pool.map(is_right, ROWS)]
    Path("share.json").write_text(json.dumps(sum(right) / len(right)), encoding="utf-8")
