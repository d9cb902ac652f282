"""A new user in a lab: data beside the study, on another disk, or behind a link; and a file
from elsewhere."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from PIL import Image
from typer import Exit

from looktwice.eval.commands.options import input_errors
from looktwice.eval.records import RunFolder
from tests.first_day.studies import said

STUDY = """
task: {use: eval.tasks.Folder, path: PATH}
models: {gpt4v: {use: pipelines.models.Scripted}}
stages: {ask: {use: prompting.turns.Ask}}
"""
READER = """
from dataclasses import dataclass
from pathlib import Path

from looktwice.eval.readers.reader import Reader, Reading


@dataclass(frozen=True)
class WordList(Reader):
    words: Path

    def read(self, state):
        return Reading("A" if self.words.read_text() else None)
"""
ROW = {"id": "q1", "question": "Which?", "choices": ["a", "b"], "answer": "A"}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `study` to work in, and `own` beside it, which holds questions and replies."""
    monkeypatch.delenv("LOOKTWICE_ALLOW", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    for folder in ("study/copy", "own/set", "private"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "own" / "set" / "samples.jsonl").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "own" / "replies.jsonl").write_text('{"idx": "q1", "reply": "(A)"}\n')
    monkeypatch.chdir(tmp_path / "study")
    return tmp_path


def write(path: object, more: str = "", file: str = "study.yaml") -> None:
    Path(file).write_text(STUDY.replace("PATH", str(path)) + more)


def refused(*words: str) -> str:
    output = said(*words, code=2)
    assert "lies outside" in output
    return output


@pytest.mark.parametrize("path", ["../own/set", "ABSOLUTE/own/set", "linked/set"])
def test_data_outside_the_study_s_folder_is_allowed_by_what_the_fault_says(
    lab: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab / "study" / "linked").symlink_to(lab / "own")
    write(path.replace("ABSOLUTE", str(lab)))
    output = refused("check", "study.yaml")
    assert output.startswith("task.path: ") and f"at {lab / 'own' / 'set'}; " in output
    assert "`looktwice allow study.yaml`" in output and "add --allow ../own/set" in output
    said("check", "study.yaml", "--allow", "../own/set")
    said("run", "study.yaml", "--allow", "../own")
    assert "no such folder" in said("run", "study.yaml", "--allow", "../none", code=2)
    monkeypatch.setenv("LOOKTWICE_ALLOW", os.pathsep.join(("/nowhere", str(lab / "own"))))
    said("check", "study.yaml")


def test_one_command_remembers_a_study_until_it_changes(lab: Path) -> None:
    write(lab / "own" / "set")
    assert "looktwice allow study.yaml" in refused("check", "study.yaml")
    assert str(lab / "own" / "set") in said("allow", "study.yaml")
    for command in ("check study.yaml", "run study.yaml", "show runs/study q1"):
        assert "outside" not in said(*command.split())
    for words in (["score"], ["score", "--report"], ["replay"]):
        assert "outside" not in said(*words, "runs/study")
    write(lab / "own" / "set", file="copy/study.yaml")
    assert "looktwice allow copy/study.yaml" in refused("check", "copy/study.yaml")
    write(lab / "own" / "set", "# edited")
    refusal = refused("run", "study.yaml")
    assert "it was allowed before, and" in refusal and "study.yaml changed since" in refusal
    assert "changed since" in said("allow", "--list")
    assert "outside" not in said("view", "runs/study", "--sample", "q1")
    write(lab / "own" / "set")
    said("allow", "--forget", "study.yaml")
    refused("check", "study.yaml")


def test_what_an_allowed_study_includes_is_part_of_it(lab: Path) -> None:
    write(lab / "own" / "set", file="../own/base.yaml")
    Path("study.yaml").write_text("include: ../own/base.yaml\n")
    assert "include: '../own/base.yaml' lies outside" in refused("check", "study.yaml")
    said("check", "study.yaml", "--allow", "../own")
    output = said("allow", "study.yaml")
    assert str(lab / "own" / "base.yaml") in output and str(lab / "own" / "set") in output
    said("check", "study.yaml")
    write(lab / "private", file="../own/base.yaml")
    refused("check", "study.yaml")


def test_what_was_allowed_asks_again_behind_another_link_and_where_the_note_is_damaged(
    lab: Path,
) -> None:
    (lab / "study" / "linked").symlink_to(lab / "own" / "set")
    write("linked")
    said("allow", "study.yaml")
    said("check", "study.yaml")
    (lab / "study" / "linked").unlink()
    (lab / "study" / "linked").symlink_to(lab / "private")
    refused("check", "study.yaml")
    (note,) = (lab / "configuration").rglob("*.json")
    note.write_text("{")
    refused("check", "study.yaml")
    assert said("allow") == ""
    note.unlink()
    (lab / "own" / "set").rename(lab / "study" / "set")
    write("set")
    assert "nothing to allow" in said("allow", "study.yaml")
    assert not list((lab / "configuration").rglob("*.json"))


def test_the_place_of_the_setting_is_the_place_to_type_and_one_root_is_said_once(lab: Path) -> None:
    replies = "../own/replies.jsonl"
    (lab / "study" / "set").symlink_to(lab / "own" / "set")
    write("set")
    text = Path("study.yaml").read_text()
    Path("study.yaml").write_text(text.replace("Scripted}", f"Replay, path: {replies}}}"))
    assert f"models.gpt4v.path: '{replies}' lies outside" in refused("check", "study.yaml")
    said("check", "study.yaml", f"models.gpt4v.path={replies}", "--allow", "../own")
    write("set", f"contestants: {{words: {{stages: {{ask: {{system: {{file: {replies}}}}}}}}}}}")
    assert "contestants.words.stages.ask.system" in said("check", "study.yaml", code=2)
    task = "{use: eval.tasks.Folder, path: ../own/set}"
    write("set", f"tasks: {{a: {task}, b: {task}, c: {task}}}")
    output = said("check", "study.yaml", "task=null", code=2)
    assert output.count("--allow") == 1 and "tasks.a.path" in output


@pytest.mark.parametrize("name", ["photos/a.png", "ABSOLUTE/disk/a.png"])
def test_images_may_lie_on_another_disk_that_is_allowed(
    lab: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (lab / "disk").mkdir()
    Image.new("RGB", (9, 9)).save(lab / "disk" / "a.png")
    (lab / "own" / "set" / "photos").symlink_to(lab / "disk")
    row = {"id": "q1", "question": "Which?", "image": name.replace("ABSOLUTE", str(lab))}
    (lab / "own" / "set" / "samples.jsonl").write_text(json.dumps(row | {"answer": "a"}) + "\n")
    write("../own/set")
    check = ("check", "study.yaml", "--allow", "../own")
    output = said(*check, code=2)
    assert "leads out of the folder" in output and "--allow ../disk" in output
    said(*check, "--allow", "../disk")
    assert "looktwice allow ../own/set" in output
    assert str(lab / "disk") in said("allow", "../own/set")
    said(*check)
    said("allow", "--forget", "../own/set")
    said(*check, code=2)
    monkeypatch.setenv("LOOKTWICE_ALLOW", str(lab / "disk"))
    said(*check)


def test_a_study_with_an_own_reader_is_allowed_and_scored_from_any_folder(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = lab / "study" / "word_lists.py"
    plugin.write_text(READER)
    write("../own/set", "read: {use: word_lists.WordList, words: ../own/replies.jsonl}\n")
    output = refused("check", "study.yaml", "--plugin", "word_lists.py")
    command = re.search(r"`looktwice (allow [^`]*)`", output)
    assert command and "--plugin" in command[1]
    said("run", "study.yaml", "--allow", "../own", "--plugin", "word_lists.py")
    monkeypatch.chdir(lab / "own" / "set")
    score = ("score", str(lab / "study" / "runs" / "study"), "--plugin", str(plugin))
    assert "the run's folder" in refused(*score)
    assert "100.0" in said(*score, "--allow", str(lab / "own"))
    monkeypatch.chdir(lab / "study")
    assert "replies.jsonl" in said(*command[1].split())
    said("run", "study.yaml", "--plugin", "word_lists.py")


TAKEN = """
run study.yaml --allow ../own --out taken
run study.yaml --allow ../own --out taken/deeper
check study.yaml --allow ../own --out taken
score runs/study --allow ../own --out taken
export runs/study --to run --out taken
compare runs/study runs/study --allow ../own --out taken
discover study.yaml --allow ../own --out taken
"""


def test_a_place_that_cannot_be_written_is_blamed_on_its_option(lab: Path) -> None:
    write("../own/set")
    said("run", "study.yaml", "--allow", "../own")
    Path("taken").touch()
    for words in map(str.split, TAKEN.strip().splitlines()):
        fault = f"--out {words[-1]} cannot be written (taken is a file); type --out and a place"
        assert fault in said(*words, code=2)
    assert "a folder; give the YAML file of a study" in said("run", lab, code=2)


def test_an_error_elsewhere_is_not_blamed_on_the_place_of_runs(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = str(Path.cwd())
    for arguments in ((111, "Connection refused"), (13, "Denied", "data"), (1, "No", here)):
        error = OSError(*arguments)
        with pytest.raises(Exit), input_errors(out=Path("runs")):
            raise error
        assert capsys.readouterr().err == f"{error}\n"


def test_a_mark_outside_its_image_fails_its_own_sample_in_every_arm(lab: Path) -> None:
    folder = lab / "study" / "set"
    folder.mkdir()
    Image.new("RGB", (60, 50)).save(folder / "a.png")
    marks = [[{"label": "P", "x": 70 if n in (2, 4) else 5, "y": 5}] for n in range(6)]
    rows = [ROW | {"id": f"q{n}", "image": "a.png", "marks": mark} for n, mark in enumerate(marks)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    mark = "{use: prompting.markers.Circles, before: ask}"
    write("set", f"contestants: {{plain: {{}}, drawn: {{stages: {{mark: {mark}}}}}}}")
    output = said("check", "study.yaml", code=2)
    assert "1 fault, named at the end" in output and "no faults" not in output
    assert "2 samples would fail for a mark outside its image; the first: sample q2: " in output
    assert "2 faults in the samples" in said("check", "study.yaml", "--all", code=2)
    said("run", "study.yaml", "models.gpt4v.answer='(A)'", code=1)
    records = RunFolder(Path("runs/study")).records()
    failed = [key[1] for key, record in records.items() if record.error]
    assert sorted(failed) == ["q2", "q2", "q4", "q4"]
