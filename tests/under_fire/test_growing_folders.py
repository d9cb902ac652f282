"""A run folder that grows while a command reads it: the table and the pages of what is whole, and
no fault."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from looktwice.eval.records import RunFolder
from tests.first_day.studies import looktwice

STUDY = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 4}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {ask: {use: prompting.turns.Ask}}
"""
GROWING = ("samples.jsonl", "records.jsonl")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    (root / "study.yaml").write_text(STUDY)
    assert looktwice("run", root / "study.yaml", "--out", root / "runs").exit_code == 0
    return root / "runs" / "study"


@pytest.mark.parametrize(
    "words", [["score"], ["report"], ["show", "jigsaw_0000"], ["replay"], ["merge"]]
)
@pytest.mark.parametrize("first", GROWING)
def test_a_folder_that_grows_meanwhile_is_read_as_far_as_it_is_whole(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, words: list[str]
) -> None:
    """Each time one of its files is read, both have grown, one of them by half a line more."""
    run = tmp_path / "study"
    shutil.copytree(made, run)
    whole = {name: (made / name).read_bytes().splitlines(keepends=True) for name in GROWING}
    written = dict.fromkeys(GROWING, 1)
    for name in GROWING:
        (run / name).write_bytes(whole[name][0])

    def grow() -> None:
        for name in GROWING:
            written[name] = min(written[name] + 1, 4)
            lines = whole[name]
            half = b"" if written[name] == 4 or name != first else lines[written[name]][:40]
            (run / name).write_bytes(b"".join(lines[: written[name]]) + half)

    read = RunFolder._lines

    def lines(folder: RunFolder, name: str) -> Iterator[tuple[int, bytes]]:
        found = list(read(folder, name))
        grow()
        yield from found

    monkeypatch.setattr(RunFolder, "_lines", lines)
    more = ["--out", tmp_path / "merged"] if words[0] == "merge" else []
    result = looktwice(words[0], run, *words[1:], *more)
    assert result.exception is None, (result.output, result.exception)
    assert result.exit_code == 0


@pytest.mark.parametrize("name", GROWING)
def test_records_of_samples_and_arms_that_are_not_there_yet_are_passed_over(
    made: Path, tmp_path: Path, name: str
) -> None:
    run = tmp_path / "study"
    shutil.copytree(made, run)
    lines = (run / name).read_bytes().splitlines(keepends=True)
    (run / name).write_bytes(b"".join(lines[:2]) + lines[2][:50])
    record = json.loads((made / "records.jsonl").read_text().splitlines()[0])
    with (run / "records.jsonl").open("ab") as file:
        file.write(
            b""
            if name == "records.jsonl"
            else json.dumps(record | {"point": "not there yet"}).encode() + b"\n"
        )
    for words in (["score", run], ["report", run], ["show", run, "jigsaw_0000"]):
        result = looktwice(*words)
        assert result.exit_code == 0, (words, result.output)
    assert "unfinished" in looktwice("score", run).output
