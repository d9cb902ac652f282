"""Shared helpers: a folder of questions, and a command with an expected exit code."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.eval.records import Record, RunFolder
from looktwice.pipelines.encodings.image_files import to_png
from tests.first_day.studies import looktwice

STUDY = """
task: {use: eval.tasks.Folder, path: own}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {ask: {use: prompting.turns.Ask}}
"""
RUN = Path("runs/study")


def run_command(code: int, *words: object) -> str:
    """Run a command, check its exit code and that there is no traceback, and return its output."""
    result = looktwice(*words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code and "Traceback" not in result.output, (words, result.output)
    return result.output


def write_questions(*rows: dict[str, Any], folder: str = "own", side: int = 9) -> None:
    """Write questions in a folder, and the pictures that they name."""
    place = Path(folder)
    place.mkdir(exist_ok=True)
    plain = {"question": "Which?", "choices": ["a", "b"], "answer": "A"}
    rows = tuple({"id": f"q{number}", **plain, **row} for number, row in enumerate(rows))
    (place / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for number, name in enumerate(name for row in rows for name in row.get("images", ())):
        pixels = np.random.default_rng(number).integers(0, 255, (side, side, 3), dtype=np.uint8)
        (place / name).write_bytes(to_png(pixels))


def records(run: Path = RUN) -> dict[str, Record]:
    """Return the records of a run with one arm, by sample."""
    return {record.sample: record for record in RunFolder(run).records().values()}
