"""Files that are far larger than they look, or hold what no text is: a sentence says it, and memory
stays free."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
from openpyxl import Workbook

from looktwice.eval.records import RunFolder
from looktwice.pipelines.disk import read_file
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


@pytest.mark.parametrize("name", ["study.yaml", "questions/samples.jsonl"])
def test_a_text_that_is_too_large_to_read_is_named(study: Path, name: str) -> None:
    hole(name)
    result = looktwice("check", study)
    assert (
        result.exit_code == 2
        and Path(name).name in result.output
        and "are the most" in result.output
    )


@pytest.mark.parametrize("filler", [b"#" * 10_000_000 + b"\n", b" " * 10_000_000])
def test_a_header_without_end_is_not_read(filler: bytes) -> None:
    """A picture whose comment has 50 MB took a minute of each worker, at every look."""
    begun = time.monotonic()
    with pytest.raises(PictureError, match="bytes hold no size"):
        Picture.encoded(b"P6\n" + filler + b"1 1\n255\nabc").size  # noqa: B018
    assert time.monotonic() - begun < 1
    assert Picture.encoded(b"P6 # by hand\n1 1\n255\nabc").size == (1, 1)


def test_a_file_that_fits_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    assert read_file(tmp_path / "a") == b"a"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "sweep: {stages.ask.images: [!!binary aGVsbG8=, all]}",
            "!!binary holds no text, at line 5",
        ),
        ('include: "\\0"', "include: expected the name of a configuration"),
        ('include: ["quickstart", "a\\0b"]', "include: expected the name of a configuration"),
    ],
)
def test_what_is_no_text_in_a_study_is_named(study: Path, line: str, said: str) -> None:
    """A traceback told of bytes that are no JSON, or of a null byte."""
    study.write_text(f"{STUDY}{line}\n")
    result = looktwice("check", study)
    assert (
        result.exit_code == 2 and said in result.output and result.exception.__class__ is SystemExit
    ), result.output


def write_bombs() -> None:
    """Recorded replies that unpack to one endless line, or to far more than they are."""
    with gzip.open("bomb.jsonl.gz", "wb") as packed:
        packed.write(b"a" * (1 << 18))
    with gzip.open("bomb.tsv.gz", "wb") as packed:
        packed.write(b"a" * (1 << 18))
    Path("line.tsv").write_bytes(b"index\tprediction\n" + b"a" * (1 << 18))
    Path("quote.tsv").write_bytes(b'index\tprediction\nval_IQ_Test_1\t"' + b"a\n" * (1 << 18))
    book: Any = Workbook()
    book.active.append(["index", "prediction"])
    book.active.append(["val_IQ_Test_1", "a" * 30_000])
    for _ in range(20):
        book.active.append(["val_IQ_Test_1", "a" * 30_000])
    book.save("bomb.xlsx")
    with ZipFile("bomb.xlsx") as whole, ZipFile("torn.xlsx", "w", ZIP_DEFLATED) as torn:
        for entry in whole.infolist():
            torn.writestr(
                entry,
                whole.read(entry)[:200] if entry.filename.endswith("workbook.xml") else b"<a>",
            )
    Path("short.gz").write_bytes(gzip.compress(b'{"idx": 1}\n' * 100)[:-20])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bomb.jsonl.gz", "longer than"),
        ("bomb.tsv.gz", "longer than"),
        ("line.tsv", "longer than"),
        ("quote.tsv", "field larger than"),
        ("bomb.xlsx", "would unpack to more than"),
        ("torn.xlsx", "cannot be read as an Excel table"),
        ("short.gz", "cannot be read"),
        ("/dev/zero", "pipe or a device"),
    ],
)
def test_recorded_replies_that_unpack_to_any_size_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    """A file of 3 MB took 3 GB, then a traceback."""
    monkeypatch.chdir(tmp_path)
    write_bombs()
    monkeypatch.setattr("looktwice.pipelines.disk.MOST_LINE", 1 << 16)
    monkeypatch.setattr("looktwice.eval.tasks.table_files.MOST_LINE", 1 << 16)
    result = looktwice("replies", name)
    assert result.exit_code == 2 and said in result.output.replace("\n", " "), result.output


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("annotations", {"image_id": [1], "bbox": [1, 1, 5, 5]}),
        ("categories", 5),
        ("images", {"id": {}}),
    ],
)
def test_ids_that_are_none_are_named(study: Path, name: str, row: object) -> None:
    """`make` ended with a traceback."""
    lists = {"images": [], "annotations": [{"image_id": 1, "bbox": [1, 1, 5, 5]}], "categories": []}
    Path("coco.json").write_text(json.dumps({**lists, name: [row]}))
    study.write_text("task: {use: eval.make.Localization, path: coco.json, images: questions}")
    result = looktwice("make", study)
    assert result.exit_code == 2 and f"{name}[0] is no object with ids" in result.output, (
        result.output
    )


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


def test_odd_facts_of_a_task_are_named_before_they_are_written(study: Path) -> None:
    """They were written down, and from then on the run could neither be read nor go on."""
    Path("own_task.py").write_text(
        "from dataclasses import dataclass\nfrom looktwice.eval.tasks.base import Facts\nfrom"
        " looktwice.eval.tasks import Folder\n@dataclass(frozen=True)\nclass T(Folder):\n   "
        " @property\n    def facts(self): return Facts('', '', '')\n"
    )
    study.write_text(STUDY.replace("eval.tasks.Folder", "own_task.T"))
    result = looktwice("run", study, "--plugin", "own_task.py")
    assert result.exit_code == 2 and "facts.errata is a tuple of texts, found ''" in result.output
    assert not Path("runs/study/points.yaml").exists()
