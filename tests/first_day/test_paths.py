"""The usual layout of a lab: data beside the study, on another disk, or behind a link; and a file
from elsewhere."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from PIL import Image
from typer import Exit
from typer.testing import CliRunner, Result

from looktwice.eval.cli import app
from looktwice.eval.cli_options import input_errors
from looktwice.eval.records import RunFolder

STUDY = """
task: {use: eval.tasks.Folder, path: PATH}
models: {gpt4v: {use: pipelines.models.Scripted}}
stages: {ask: {use: prompting.turns.Ask}}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `study` to work in, and `own` beside it, which holds questions and replies."""
    monkeypatch.delenv("LOOKTWICE_ALLOW", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    for folder in ("study", "own/set"):
        (tmp_path / folder).mkdir(parents=True)
    row = {"id": "q1", "question": "Which?", "images": [], "choices": ["a", "b"], "answer": "A"}
    (tmp_path / "own" / "set" / "samples.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "own" / "replies.jsonl").write_text('{"idx": "q1", "reply": "(A)"}\n')
    monkeypatch.chdir(tmp_path / "study")
    return tmp_path


def looktwice(command: str, study: str, *words: str) -> Result:
    Path("study.yaml").write_text(study)
    return CliRunner().invoke(app, [command, "study.yaml", *words])


@pytest.mark.parametrize("path", ["../own/set", "ABSOLUTE/own/set", "linked/set"])
def test_data_outside_the_study_s_folder_is_allowed_by_what_the_fault_says(
    lab: Path, path: str
) -> None:
    """`../own`, absolute paths and links were refused, whatever one wrote into one's own file."""
    (lab / "study" / "linked").symlink_to(lab / "own")
    study = STUDY.replace("PATH", path.replace("ABSOLUTE", str(lab)))
    result = looktwice("check", study)
    assert result.exit_code == 2
    assert (
        result.output.startswith("task.path: ") and f"at {lab / 'own' / 'set'}; " in result.output
    )
    assert (
        "type `looktwice allow study.yaml`" in result.output
        and "add --allow ../own/set" in result.output
    )
    assert looktwice("check", study, "--allow", "../own/set").exit_code == 0
    assert looktwice("run", study, "--allow", "../own").exit_code == 0
    assert "no such folder" in looktwice("run", study, "--allow", "../none").output


def test_a_lab_allows_its_usual_folders_for_good(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKTWICE_ALLOW", os.pathsep.join(("/nowhere", str(lab / "own"))))
    assert looktwice("check", STUDY.replace("PATH", "../own/set")).exit_code == 0


def typed(*words: object) -> str:
    """What a command prints, which ends well."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: object) -> str:
    """What a command prints that refuses."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 2 and "lies outside" in result.output, result.output
    return result.output


def test_one_command_remembers_a_study_until_it_changes(lab: Path) -> None:
    """An absolute path in one's own study was refused until `--allow`, and `show` repeated the note
    for ever."""
    Path("study.yaml").write_text(STUDY.replace("PATH", str(lab / "own" / "set")))
    assert "looktwice allow study.yaml" in refused("check", "study.yaml")
    assert str(lab / "own" / "set") in typed("allow", "study.yaml")
    for words in (
        ("check", "study.yaml"),
        ("run", "study.yaml"),
        ("show", "runs/study", "q1"),
        ("report", "runs/study"),
        ("score", "runs/study"),
        ("replay", "runs/study"),
    ):
        assert "outside" not in typed(*words)
    with Path("study.yaml").open("a") as file:
        file.write("# edited\n")
    refusal = refused("run", "study.yaml")
    assert "it was allowed before, and" in refusal and "study.yaml changed since" in refusal
    assert "changed since" in typed("allow", "--list")
    assert "outside" not in typed("show", "runs/study", "q1")


def test_a_copy_of_an_allowed_study_asks_again_and_so_do_other_paths(lab: Path) -> None:
    study = STUDY.replace("PATH", str(lab / "own" / "set"))
    Path("study.yaml").write_text(study)
    typed("allow", "study.yaml")
    (lab / "study" / "copy").mkdir()
    Path("copy/study.yaml").write_text(study)
    assert "looktwice allow copy/study.yaml" in refused("check", "copy/study.yaml")
    typed("allow", "--forget", "study.yaml")
    refused("check", "study.yaml")


def test_what_an_allowed_study_includes_is_part_of_it(lab: Path) -> None:
    (lab / "own" / "base.yaml").write_text(STUDY.replace("PATH", str(lab / "own" / "set")))
    Path("study.yaml").write_text("include: ../own/base.yaml\n")
    assert "looktwice allow" in refused("check", "study.yaml")
    said = typed("allow", "study.yaml")
    assert str(lab / "own" / "base.yaml") in said and str(lab / "own" / "set") in said
    typed("check", "study.yaml")
    (lab / "private").mkdir()
    (lab / "own" / "base.yaml").write_text(STUDY.replace("PATH", str(lab / "private")))
    refused("check", "study.yaml")


def test_a_link_that_leads_elsewhere_than_when_it_was_allowed_asks_again(lab: Path) -> None:
    (lab / "study" / "linked").symlink_to(lab / "own" / "set")
    Path("study.yaml").write_text(STUDY.replace("PATH", "linked"))
    typed("allow", "study.yaml")
    typed("check", "study.yaml")
    (lab / "study" / "linked").unlink()
    (lab / "private").mkdir()
    (lab / "study" / "linked").symlink_to(lab / "private")
    refused("check", "study.yaml")


def test_a_study_of_an_own_class_is_allowed_by_the_command_that_the_refusal_names(
    lab: Path,
) -> None:
    (lab / "study" / "more_words.py").write_text(READER)
    words = (
        STUDY.replace("PATH", "../own/set")
        + "read: {use: more_words.WordList, words: ../own/replies.jsonl}\n"
    )
    Path("study.yaml").write_text(words)
    said = " ".join(refused("check", "study.yaml", "--plugin", "more_words.py").split())
    command = re.search(r"`looktwice (allow [^`]*)`", said)
    assert command and "--plugin" in command[1]
    assert "replies.jsonl" in typed(*command[1].split())
    typed("run", "study.yaml", "--plugin", "more_words.py")


def test_a_damaged_note_of_what_is_allowed_allows_nothing(lab: Path) -> None:
    Path("study.yaml").write_text(STUDY.replace("PATH", "../own/set"))
    typed("allow", "study.yaml")
    (note,) = (lab / "configuration").rglob("*.json")
    note.write_text("{")
    refused("check", "study.yaml")
    assert typed("allow") == ""


def test_nothing_to_allow_is_said(lab: Path) -> None:
    (lab / "own" / "set").rename(lab / "study" / "set")
    Path("study.yaml").write_text(STUDY.replace("PATH", "set"))
    assert (
        "nothing to allow" in typed("allow", "study.yaml") and not (lab / "configuration").exists()
    )


def test_the_place_of_the_setting_is_the_place_to_type(lab: Path) -> None:
    """A fault of a model under `models:` was said of `model.path`, which is nothing that one can
    type."""
    replay = "{use: pipelines.models.Replay, path: ../own/replies.jsonl}"
    study = STUDY.replace("PATH", "set").replace("{use: pipelines.models.Scripted}", replay)
    (lab / "study" / "set").symlink_to(lab / "own" / "set")
    said = looktwice("check", study).output
    assert "models.gpt4v.path: '../own/replies.jsonl' lies outside" in said
    assert (
        looktwice(
            "check", study, "models.gpt4v.path=../own/replies.jsonl", "--allow", "../own"
        ).exit_code
        == 0
    )
    templates = "contestants: {words: {stages: {ask: {system: {file: ../own/replies.jsonl}}}}}"
    assert "contestants.words.stages.ask.system" in looktwice("check", study + templates).output


def test_one_root_for_many_tasks_is_said_once(lab: Path) -> None:
    names = ("a", "b", "c")
    tasks = ", ".join(f"{name}: {{use: eval.tasks.Folder, path: ../own/set}}" for name in names)
    study = STUDY.replace("task: {use: eval.tasks.Folder, path: PATH}", f"tasks: {{{tasks}}}")
    said = looktwice("check", study).output
    assert said.count("--allow") == 1 and "tasks.a.path" in said


def test_an_include_follows_the_same_rule(lab: Path) -> None:
    (lab / "own" / "base.yaml").write_text("stages: {ask: {use: prompting.turns.Ask}}")
    study = "include: ../own/base.yaml\n" + STUDY.replace("PATH", "../own/set")
    result = looktwice("check", study)
    assert result.exit_code == 2 and "include: '../own/base.yaml' lies outside" in result.output
    assert looktwice("check", study, "--allow", "../own").exit_code == 0


@pytest.mark.parametrize("name", ["photos/a.png", "ABSOLUTE/disk/a.png"])
def test_images_may_lie_on_another_disk_that_is_allowed(
    lab: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Photographs behind a link in one's own folder of questions had to be copied."""
    (lab / "disk").mkdir()
    Image.new("RGB", (9, 9)).save(lab / "disk" / "a.png")
    (lab / "own" / "set" / "photos").symlink_to(lab / "disk")
    row = {
        "id": "q1",
        "question": "Which?",
        "image": name.replace("ABSOLUTE", str(lab)),
        "answer": "a",
    }
    (lab / "own" / "set" / "samples.jsonl").write_text(json.dumps(row) + "\n")
    study, allow = STUDY.replace("PATH", "../own/set"), ("--allow", "../own")
    result = looktwice("check", study, *allow)
    assert result.exit_code == 2
    assert "leads out of the folder" in result.output and "--allow ../disk" in result.output
    assert looktwice("check", study, *allow, "--allow", "../disk").exit_code == 0
    assert "looktwice allow ../own/set" in result.output
    assert str(lab / "disk") in typed("allow", "../own/set")
    assert looktwice("check", study, *allow).exit_code == 0
    typed("allow", "--forget", "../own/set")
    assert looktwice("check", study, *allow).exit_code == 2
    monkeypatch.setenv("LOOKTWICE_ALLOW", str(lab / "disk"))
    assert looktwice("check", study, *allow).exit_code == 0


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


def test_a_run_whose_reader_has_a_file_is_scored_from_any_folder(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of a run name its files in full; outside of the folder one scores it in, they are
    allowed by name."""
    (lab / "study" / "word_lists.py").write_text(READER)
    study = (
        STUDY.replace("PATH", "../own/set")
        + "read: {use: word_lists.WordList, words: ../own/replies.jsonl}\n"
    )
    result = looktwice("run", study, "--allow", "../own", "--plugin", "word_lists.py")
    assert result.exit_code == 0, result.output
    monkeypatch.chdir(lab / "own" / "set")
    words = [
        "score",
        str(lab / "study" / "runs" / "study"),
        "--plugin",
        str(lab / "study" / "word_lists.py"),
    ]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2 and "lies outside the run's folder" in refused.output
    scored = CliRunner().invoke(app, [*words, "--allow", str(lab / "own")])
    assert scored.exit_code == 0 and "100.0" in scored.output, scored.output


def test_a_run_folder_in_place_of_a_study_is_called_a_folder(lab: Path) -> None:
    """`looktwice run runs/study`, typed to go on, was "not a YAML mapping ([Errno 21] ...)"."""
    result = CliRunner().invoke(app, ["run", str(lab)])
    assert result.exit_code == 2 and "a folder; give the YAML file of a study" in " ".join(
        result.output.split()
    )


@pytest.mark.parametrize(
    "words",
    [
        "run study.yaml --out taken",
        "run study.yaml --out taken/deeper",
        "check study.yaml --out taken",
        "report runs/study --out taken",
        "merge runs/study --out taken",
        "paper runs/study --out taken",
        "compare runs/study runs/study --out taken",
        "race study.yaml --out taken",
    ],
)
def test_a_place_that_cannot_be_written_is_blamed_on_its_option(words: str, lab: Path) -> None:
    """It said "[Errno 20] Not a directory: 'taken/study'", or named a draft with a number of a
    thread."""
    assert looktwice("run", STUDY.replace("PATH", "../own/set"), "--allow", "../own").exit_code == 0
    Path("taken").touch()
    result = CliRunner().invoke(
        app, [*words.split(), "--allow", "../own"] if "merge" not in words else words.split()
    )
    place = words.split()[-1]
    said = " ".join(result.output.split())
    assert result.exit_code == 2, result.output
    assert (
        f"--out {place} cannot be written (taken is a file); type --out and a place where you may"
        " write" in said
    )


def test_an_error_elsewhere_is_not_blamed_on_the_place_of_runs(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = str(Path.cwd())
    for error in (
        OSError(111, "Connection refused"),
        OSError(13, "Permission denied", "data"),
        OSError(1, "No", here),
    ):
        with pytest.raises(Exit), input_errors(out=Path("runs")):
            raise error
        assert capsys.readouterr().err == f"{error}\n"


def test_a_mark_outside_its_image_fails_its_own_sample_in_every_arm(lab: Path) -> None:
    """One wrong mark refused the whole set, and only where it was the first did `check` of another
    task say so."""
    folder = lab / "study" / "set"
    folder.mkdir()
    Image.new("RGB", (60, 50)).save(folder / "a.png")
    row = {"question": "Which?", "image": "a.png", "choices": ["a", "b"], "answer": "A"}
    rows = [
        {**row, "id": f"q{n}", "marks": [{"label": "P", "x": 70 if n in (2, 4) else 5, "y": 5}]}
        for n in range(6)
    ]
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arms = (
        "contestants: {plain: {}, drawn: {stages: {mark: {use: prompting.markers.Circles, before:"
        " ask}}}}"
    )
    study = STUDY.replace("PATH", "set").replace("Scripted", 'Scripted, answer: "(A)"') + arms
    told = " ".join(looktwice("check", study).output.split())
    assert (
        "2 samples would fail for a mark outside its image; the first: sample q2: point 'P' at"
        " (70, 5)" in told
    )
    assert "2 faults in the samples" in " ".join(looktwice("check", study, "--all").output.split())
    assert looktwice("run", study).exit_code == 1
    records = RunFolder(Path("runs/study")).records()
    failed = {key[1] for key, record in records.items() if record.error}
    assert failed == {"q2", "q4"} and sum(1 for record in records.values() if record.error) == 4
