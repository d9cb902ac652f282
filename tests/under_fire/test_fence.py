"""A run folder that somebody sent: its records name files of this machine, and no command reads
them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.pipelines.runtime.stores import Blobs

SECRET = "root:x:0:0 of this machine"
STUDY = """
task: {use: eval.tasks.Folder, path: PATH}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {system: {use: prompting.wording.System, text: Look.}, mark: {use: \
prompting.markers.Circles},
         ask: {use: prompting.turns.Ask}}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, a private folder beside it with a file of each kind, and questions in a
    third."""
    monkeypatch.delenv("LOOKTWICE_ALLOW", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    for folder in ("study", "private", "own"):
        (tmp_path / folder).mkdir()
    for folder in ("private", "own"):
        Image.new("RGB", (60, 40), "red").save(tmp_path / folder / "x.png")
        question = SECRET if folder == "private" else "Which?"
        row = {
            "id": "q1",
            "question": question,
            "images": ["x.png"],
            "choices": ["a", "b"],
            "answer": "A",
        }
        marks = [{"label": "A", "x": 5, "y": 5}]
        (tmp_path / folder / "samples.jsonl").write_text(json.dumps(row | {"marks": marks}) + "\n")
    (tmp_path / "private" / "passwd").write_text(SECRET)
    (tmp_path / "private" / "replies.jsonl").write_text(
        json.dumps({"idx": "q1", "reply": SECRET}) + "\n"
    )
    monkeypatch.chdir(tmp_path / "study")
    return tmp_path


def looktwice(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, result.output


def run_study(path: str, *words: str) -> Path:
    Path("study.yaml").write_text(STUDY.replace("PATH", path))
    code, said = looktwice("run", "study.yaml", *words)
    assert code == 0, said
    return Path("runs/study")


def change(run: Path, **parts: Any) -> None:
    """Write into points.yaml what a stranger may have written there."""
    (row,) = yaml.safe_load((run / "points.yaml").read_text())
    for part, node in parts.items():
        if part == "scorer":
            row["facts"]["scorer"] = node
        elif part == "read":
            row["read"] = node
        elif part == "task":
            row["spec"]["task"] = node
        else:
            row["spec"]["stages"][part] = node
    (run / "points.yaml").write_text(yaml.safe_dump([row], sort_keys=False))


def texts_of(run: Path) -> Iterator[str]:
    for path in run.rglob("*"):
        if path.is_file() and "blobs" not in path.parts:
            yield path.read_text(errors="replace")


FILES: dict[str, dict[str, Any]] = {
    "questions": {"task": {"use": "eval.tasks.Folder", "path": "PRIVATE"}},
    "a text": {"system": {"use": "prompting.wording.System", "text": {"file": "PRIVATE/passwd"}}},
    "a template": {
        "words": {"use": "prompting.wording.Template", "text": {"file": "PRIVATE/passwd"}}
    },
    "a font": {
        "more": {"use": "prompting.markers.Circles", "label": {"font_file": "PRIVATE/passwd"}}
    },
    "examples": {"more": {"use": "prompting.turns.FewShot", "path": "PRIVATE/samples.jsonl"}},
    "a folder of models": {
        "more": {"use": "specialists.detection.YuNet", "model": "PRIVATE/passwd"}
    },
    "a reader's file": {
        "read": {"use": "prompting.wording.System", "text": {"file": "PRIVATE/passwd"}}
    },
    "a scorer's file": {
        "scorer": {"use": "prompting.wording.System", "text": {"file": "PRIVATE/passwd"}}
    },
    "replies of a priced model": {
        "more": {
            "use": "prompting.turns.Ask",
            "captioner": {
                "use": "pipelines.models.Replay",
                "path": "PRIVATE/replies.jsonl",
                "prices": {"in": 1, "out": 1},
            },
        }
    },
}


@pytest.mark.parametrize("what", FILES)
def test_a_run_of_a_stranger_reads_no_file_of_this_machine(lab: Path, what: str) -> None:
    """`show` printed the file that the run named as a text of its prompt, and `replay` and `score`
    opened others."""
    os.rename(lab / "own", "own")
    run, private = run_study("own"), str(lab / "private")
    change(run, **json.loads(json.dumps(FILES[what]).replace("PRIVATE", private)))
    words = {"show": ["q1"], "trajectories": ["--out", "out.jsonl"], "judge": ["--model", "m"]}
    commands = ("show", "replay", "score", "report", "trajectories", "replies", "judge")
    said = [looktwice(command, run, *words.get(command, ()))[1] for command in commands]
    whole = "\n".join((*said, *texts_of(run)))
    assert SECRET not in whole
    assert "lies outside the run's folder" in whole, whole
    assert "--allow ../private" in whole


def test_a_link_in_the_folder_opens_nothing(lab: Path) -> None:
    run = run_study("../own", "--allow", "../own")
    os.symlink(lab / "private", run / "data")
    change(run, task={"use": "eval.tasks.Folder", "path": str(run.resolve() / "data")})
    _, said = looktwice("show", run, "q1")
    assert "data is a link" in said and SECRET not in said


def test_a_run_made_here_is_shown_as_before(lab: Path) -> None:
    """Data in the working folder needs no word; the stored pictures stand in for other data, and
    one line says so."""
    os.rename(lab / "own", "own")
    run = run_study("own")
    for command in (("show", run, "q1"), ("replay", run), ("score", run)):
        code, said = looktwice(*command)
        assert code == 0 and "outside" not in said, said


def test_data_elsewhere_are_read_once_they_are_allowed(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the line says to type is what helps, for each of the commands and for good."""
    run = run_study("../own", "--allow", "../own")
    code, said = looktwice("show", run, "q1")
    (line,) = (line for line in said.splitlines() if "outside" in line)
    assert (
        code == 0
        and line.startswith("shown with the stored pictures, for task.path: ")
        and "--allow ../own" in line
    )
    code, said = looktwice("replay", run)
    assert code == 1 and "looktwice allow runs/study" in said
    for command in (("show", run, "q1"), ("replay", run)):
        code, said = looktwice(*command, "--allow", "../own")
        assert code == 0 and "outside" not in said, said
    monkeypatch.setenv("LOOKTWICE_ALLOW", str(lab / "own"))
    code, said = looktwice("replay", run)
    assert code == 0 and said.endswith(
        "\nreplayed without a model: 1 record the same bit for bit\n"
    )


def test_a_run_of_a_stranger_stays_fenced_beside_runs_that_are_allowed(lab: Path) -> None:
    """Neither a copy of an allowed run, nor an allowed one that was edited, reads what that one
    may."""
    Path("study.yaml").write_text(STUDY.replace("PATH", "../own"))
    assert looktwice("allow", "study.yaml")[0] == 0
    run = run_study("../own")
    assert "outside" not in looktwice("show", run, "q1")[1]
    foreign = Path("foreign")
    shutil.copytree(run, foreign)
    assert "looktwice allow foreign" in looktwice("report", foreign)[1]
    change(
        run,
        system={
            "use": "prompting.wording.System",
            "text": {"file": str(lab / "private" / "passwd")},
        },
    )
    for command in (("show", run, "q1"), ("replay", run)):
        _, said = looktwice(*command)
        assert "lies outside the run's folder" in said and SECRET not in said


FILES_OF_A_RUN = (
    "records.jsonl",
    "samples.jsonl",
    "points.yaml",
    "run.yaml",
    "judged.jsonl",
    ".lock",
    "show",
    "blobs",
)


@pytest.mark.parametrize("name", [*FILES_OF_A_RUN, "report.html"])
def test_no_link_in_a_run_folder_is_followed(lab: Path, name: str) -> None:
    """`show` wrote its page through a link out of the folder, and pictures were read through
    one."""
    run, bait = run_study("../own", "--allow", "../own"), lab / "bait"
    whole = (run / "records.jsonl").read_bytes()
    if (run / name).is_dir():
        (run / name).rename(bait)
    elif name == "show":
        bait.mkdir()
    else:
        bait.write_text("one line\nand half a line")
        (run / name).unlink(missing_ok=True)
    before = sorted(
        (path, path.is_file() and path.read_bytes()) for path in (bait, *bait.rglob("*"))
    )
    (run / name).symlink_to(bait)
    again = ("run", "study.yaml", "--allow", "../own")
    for words in (("show", run, "q1"), again):
        code, said = looktwice(*words)
        assert code == 2 and f"{name} is a link" in said, said
    assert (
        sorted((path, path.is_file() and path.read_bytes()) for path in (bait, *bait.rglob("*")))
        == before
    )
    assert name == "records.jsonl" or (run / "records.jsonl").read_bytes() == whole


@pytest.mark.parametrize("inner", [False, True])
def test_a_link_among_the_pictures_of_a_run_is_not_followed(tmp_path: Path, inner: bool) -> None:
    """Nor one in place of the folder in which a picture lies: neither is read, nor written
    through."""
    bait, blobs = tmp_path / "bait", Blobs(tmp_path / "run" / "blobs")
    sha = sha256(b"private").hexdigest()
    place = blobs.path(sha)
    link = place if inner else place.parent
    bait.mkdir()
    (bait / sha).write_bytes(b"private")
    link.parent.mkdir(parents=True)
    link.symlink_to(bait / sha if inner else bait)
    with pytest.raises(FileNotFoundError):
        blobs.get(sha)
    (bait / sha).write_bytes(b"other")
    if inner:
        blobs.put(b"private")
        assert blobs.get(sha) == b"private"
    else:
        with pytest.raises(OSError, match="is a link"):
            blobs.put(b"private")
    assert (bait / sha).read_bytes() == b"other"
