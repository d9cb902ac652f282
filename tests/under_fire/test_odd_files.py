"""Files that are far larger than they look, or hold what no text is: a sentence says it, and memory
stays free."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from looktwice.eval.records import RunFolder
from looktwice.pipelines.picture import Picture, PictureError, to_png
from tests.first_day.studies import looktwice

STUDY = """
task: {use: eval.tasks.Folder, path: questions}
model: {use: pipelines.models.Scripted, answer: "(A)"}
stages: {ask: {use: prompting.turns.Ask}}
"""
HOLE = 20 << 30


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("questions").mkdir()
    rows = [
        {"id": f"q{n}", "image": f"{n}.png", "question": "Which?", "choices": ["x", "y"]}
        for n in range(3)
    ]
    Path("questions/samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for number in range(3):
        Path(f"questions/{number}.png").write_bytes(to_png(np.full((8, 8, 3), number, np.uint8)))
    Path("study.yaml").write_text(STUDY)
    return Path("study.yaml")


def hole(path: str) -> None:
    """Let a file claim 20 GiB that take no room on the disk."""
    with Path(path).open("ab") as file:
        file.truncate(HOLE)


def test_a_picture_that_is_too_large_to_read_fails_its_own_sample(study: Path) -> None:
    """One among six ended the run for want of memory, before anything was asked."""
    hole("questions/1.png")
    assert looktwice("run", study).exit_code == 1
    failed = {
        record.sample: record.error for record in RunFolder(Path("runs/study")).records().values()
    }
    assert [name for name, error in sorted(failed.items()) if error] == ["q1"]
    assert "1.png: the image file cannot be read (it has 21,474,836,480 bytes; " in failed["q1"]


@pytest.mark.parametrize("filler", [b"#" * 10_000_000 + b"\n", b" " * 10_000_000])
def test_a_header_without_end_is_not_read(filler: bytes) -> None:
    """A picture whose comment has 50 MB took a minute of each worker, at every look."""
    begun = time.monotonic()
    with pytest.raises(PictureError, match="bytes hold no size"):
        Picture.encoded(b"P6\n" + filler + b"1 1\n255\nabc").size  # noqa: B018
    assert time.monotonic() - begun < 1
    assert Picture.encoded(b"P6 # by hand\n1 1\n255\nabc").size == (1, 1)


STAGE = """
from dataclasses import dataclass
from looktwice.pipelines.model import Stopped
class Own(BaseException): pass
@dataclass(frozen=True)
class S:
    how: str = ""
    def __call__(self, state, model):
        raise {"own": Own("mine"), "exit": SystemExit(3), "stopped": Stopped("mine")}[self.how]
"""


@pytest.mark.parametrize(("how", "code"), [("own", 1), ("exit", 1), ("stopped", 2)])
def test_a_stage_that_raises_what_is_no_exception_ends_no_command(
    study: Path, how: str, code: int
) -> None:
    """`check` ended with a traceback; a run in which a stage raised Stopped asked nothing, and
    reported success."""
    Path(f"own_{how}.py").write_text(STAGE)
    study.write_text(STUDY.replace("stages: {", f"stages: {{x: {{use: own_{how}.S, how: {how}}}, "))
    checked, ran = (
        looktwice(command, study, "--plugin", f"own_{how}.py") for command in ("check", "run")
    )
    assert (checked.exit_code, ran.exit_code) == (2, code), ran.output
    assert "FAILED: " in checked.output and "Traceback" not in checked.output + ran.output
    assert (
        "raise another exception" in ran.output or len(RunFolder(Path("runs/study")).records()) == 3
    )
