"""Data outside the study's folder, on another disk, or behind a link; and an untrusted file."""

import json
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image
from typer import Exit
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.commands import options
from looktwice.eval.commands.options import handle_input_errors
from looktwice.eval.records import RunFolder
from looktwice.pipelines.config import ConfigError, load_plan
from tests.first_day.studies import get_output
from tests.optional import needs_extras

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
    """A working folder `study`, and a folder `own` next to it with questions and replies."""
    monkeypatch.delenv("LOOKTWICE_ALLOW", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    for folder in ("study/copy", "own/set", "private"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "own" / "set" / "samples.jsonl").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "own" / "replies.jsonl").write_text('{"idx": "q1", "reply": "(A)"}\n')
    monkeypatch.chdir(tmp_path / "study")
    return tmp_path


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user sees the question; their answer is the input of the command."""
    monkeypatch.setattr(options, "is_terminal", lambda: True)


def write(path: object, more: str = "", file: str = "study.yaml") -> None:
    Path(file).write_text(STUDY.replace("PATH", str(path)) + more)


def get_refusal(*words: object) -> str:
    output = get_output(*words, code=2)
    assert "lies outside" in output
    return output


@pytest.mark.parametrize("path", ["../own/set", "ABSOLUTE/own/set", "linked/set"])
def test_data_outside_the_folder_is_allowed_by_the_option_that_the_fault_names(
    lab: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab / "study" / "linked").symlink_to(lab / "own")
    write(path.replace("ABSOLUTE", str(lab)))
    output = get_refusal("check", "study.yaml")
    assert output.startswith("task.path: ") and output.count(str(lab / "own" / "set")) == 1
    assert "add --allow ../own/set (or set LOOKTWICE_ALLOW)" in output
    get_output("check", "study.yaml", "--allow", "../own/set")
    get_output("run", "study.yaml", "--allow", "../own")
    assert "no such folder" in get_output("run", "study.yaml", "--allow", "../none", code=2)
    monkeypatch.setenv("LOOKTWICE_ALLOW", os.pathsep.join(("/nowhere", str(lab / "own"))))
    get_output("check", "study.yaml")


def get_answered_output(answer: str, *words: object, code: int = 0) -> str:
    """Return the output of a command in a terminal whose single question gets this answer."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=f"{answer}\n")
    assert result.exit_code == code, result.output
    assert result.output.count("[y/N]") == 1, result.output
    return result.output


@pytest.mark.usefixtures("terminal")
def test_one_confirmation_survives_edits_but_not_another_folder(lab: Path) -> None:
    write(lab / "own" / "set")
    question = "study.yaml reads ../own/set, outside its own folder. Do you trust it?"
    assert question in get_answered_output("n", "check", "study.yaml", code=2)
    assert question in get_answered_output("y", "check", "study.yaml")
    for line in ("check study.yaml", "run study.yaml", "view runs/study --sample q1"):
        assert "[y/N]" not in get_output(*line.split())
    write(lab / "own" / "set", "# edited")
    for line in ("run study.yaml", "score runs/study --report"):
        assert "[y/N]" not in get_output(*line.split())
    write(lab / "own" / "set", file="copy/study.yaml")
    assert "copy/study.yaml reads ../own/set" in get_answered_output(
        "n", "check", "copy/study.yaml", code=2
    )
    more = f"contestants: {{a: {{stages: {{ask: {{system: {{file: {lab / 'private' / 'a'}}}}}}}}}}}"
    (lab / "private" / "a").write_text("Look.")
    write(lab / "own" / "set", more)
    assert "study.yaml reads ../private, outside" in get_answered_output("y", "check", "study.yaml")
    get_output("check", "study.yaml")


def test_without_a_terminal_nothing_is_asked_and_an_allowed_run_needs_no_option(lab: Path) -> None:
    write(lab / "own" / "set")
    assert "[y/N]" not in get_refusal("check", "study.yaml")
    get_output("run", "study.yaml", "--allow", "../own")
    get_refusal("check", "study.yaml")
    for words in (["score"], ["replay"], ["view", "--sample", "q1"]):
        assert "outside" not in get_output(words[0], "runs/study", *words[1:])


def test_a_study_derived_from_an_allowed_one_needs_no_option(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("../own/set")
    monkeypatch.chdir(lab)
    plan = load_plan(Path("study/study.yaml"), allow=["own"])
    for name in ("winner", "copy"):
        shutil.copy("study/study.yaml", f"study/{name}.yaml")
    plan.copy_grants_to(Path("study/winner.yaml"))
    assert load_plan(Path("study/winner.yaml")).named_paths == {lab / "own" / "set"}
    with pytest.raises(ConfigError, match="--allow own/set"):
        load_plan(Path("study/copy.yaml"))


SERVER = "{use: pipelines.models.ChatAPI, model: x, url: 'https://HOST/v1'}"


@pytest.mark.usefixtures("terminal")
def test_a_study_that_reads_outside_also_asks_about_its_hosts(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_for(path: object, host: str) -> None:
        write(path)
        text = Path("study.yaml").read_text()
        model = SERVER.replace("HOST", host)
        Path("study.yaml").write_text(text.replace("{use: pipelines.models.Scripted}", model))

    both = "study.yaml reads ../own/set, outside its own folder, and sends to one.example.org."
    write_for("../own/set", "one.example.org")
    assert both in get_answered_output("y", "check", "study.yaml")
    write_for("../own/set", "two.example.org")
    assert "and sends to two.example.org. Do" in get_answered_output(
        "n", "check", "study.yaml", code=2
    )
    write_for("../own/set", "127.0.0.1:8000")
    get_output("check", "study.yaml")
    (lab / "own" / "set").rename(lab / "study" / "set")
    write_for("set", "three.example.org")
    assert "[y/N]" not in get_output("check", "study.yaml")
    (lab / "study" / "set").rename(lab / "own" / "set")
    write_for("../own/set", "two.example.org")
    given = "models.gpt4v.url=https://two.example.org/v1"
    assert "[y/N]" not in get_output("check", "study.yaml", given)
    monkeypatch.setattr(options, "is_terminal", lambda: False)
    check = ("check", "study.yaml", "--allow", "../own")
    output = get_output(*check, code=2)
    assert output.startswith("models.gpt4v.url: ") and "add --allow two.example.org" in output
    get_output(*check, "--allow", "two.example.org")
    get_output(*check, "--allow", "https://two.example.org/v1")
    monkeypatch.setenv("LOOKTWICE_ALLOW", os.pathsep.join((str(lab / "own"), "two.example.org")))
    get_output("check", "study.yaml")


@pytest.mark.usefixtures("terminal")
def test_the_question_covers_the_included_files(lab: Path) -> None:
    write(lab / "own" / "set", file="../own/base.yaml")
    Path("study.yaml").write_text("include: ../own/base.yaml\n")
    get_output("check", "study.yaml", "--allow", "../own")
    assert "study.yaml reads ../own, outside its own" in get_answered_output(
        "y", "check", "study.yaml"
    )
    get_output("check", "study.yaml")
    write(lab / "private", file="../own/base.yaml")
    assert "reads ../private, outside" in get_answered_output("n", "check", "study.yaml", code=2)


@pytest.mark.usefixtures("terminal")
def test_the_question_is_repeated_for_another_link_and_for_a_damaged_note(lab: Path) -> None:
    (lab / "study" / "linked").symlink_to(lab / "own" / "set")
    write("linked")
    get_answered_output("y", "check", "study.yaml")
    (lab / "study" / "linked").unlink()
    (lab / "study" / "linked").symlink_to(lab / "private")
    assert "reads ../private, outside" in get_answered_output("n", "check", "study.yaml", code=2)
    (lab / "study" / "linked").unlink()
    (lab / "study" / "linked").symlink_to(lab / "own" / "set")
    get_output("check", "study.yaml")
    (note,) = (lab / "configuration").rglob("*.json")
    note.write_text("{")
    get_answered_output("n", "check", "study.yaml", code=2)


@pytest.mark.usefixtures("terminal")
def test_file_names_cannot_change_the_look_of_the_question(lab: Path) -> None:
    (lab / "own" / "set").rename(lab / "own" / "a\x1b[2J\nb")
    write(r'"../own/a\e[2J\nb"')
    question = "study.yaml reads ../own/a\\x1b[2J b, outside its own folder. Do you trust it?"
    assert question in get_answered_output("n", "check", "study.yaml", code=2)


@pytest.mark.usefixtures("terminal")
def test_other_faults_are_reported_before_anything_is_asked(lab: Path) -> None:
    write("../own/set", "sed: 3")
    output = get_output("check", "study.yaml", code=2)
    assert "sed: no such entry" in output and "[y/N]" not in output


def test_the_home_folder_is_never_suggested_for_a_single_file(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(lab / "own"))
    write("set", "read: {use: prompting.wording.System, text: {file: ../own/replies.jsonl}}\n")
    (lab / "study" / "set").symlink_to(lab / "own" / "set")
    output = get_refusal("check", "study.yaml")
    assert "--allow ../own/set --allow ../own/replies.jsonl (" in output


def test_the_fault_names_the_place_of_the_setting_and_each_root_once(lab: Path) -> None:
    replies = "../own/replies.jsonl"
    (lab / "study" / "set").symlink_to(lab / "own" / "set")
    write("set")
    text = Path("study.yaml").read_text()
    Path("study.yaml").write_text(text.replace("Scripted}", f"Replay, path: {replies}}}"))
    assert f"; models.gpt4v.path: '{replies}' lies outside" in get_refusal("check", "study.yaml")
    get_output("check", "study.yaml", f"models.gpt4v.path={replies}", "--allow", "../own")
    write("set", f"contestants: {{words: {{stages: {{ask: {{system: {{file: {replies}}}}}}}}}}}")
    assert "contestants.words.stages.ask.system" in get_output("check", "study.yaml", code=2)
    task = "{use: eval.tasks.Folder, path: ../own/set}"
    write("set", f"tasks: {{a: {task}, b: {task}, c: {task}}}")
    output = get_output("check", "study.yaml", "task=null", code=2)
    assert output.count("--allow") == 1 and output.startswith("tasks.a.path: ")


@pytest.mark.parametrize("name", ["photos/a.png", "ABSOLUTE/disk/a.png"])
def test_images_can_lie_on_another_allowed_disk(
    lab: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (lab / "disk").mkdir()
    Image.new("RGB", (9, 9)).save(lab / "disk" / "a.png")
    (lab / "own" / "set" / "photos").symlink_to(lab / "disk")
    row = {"id": "q1", "question": "Which?", "image": name.replace("ABSOLUTE", str(lab))}
    (lab / "own" / "set" / "samples.jsonl").write_text(json.dumps(row | {"answer": "a"}) + "\n")
    write("../own/set")
    check = ("check", "study.yaml", "--allow", "../own")
    output = get_output(*check, code=2)
    assert "leads out of the folder" in output and "--allow ../disk" in output
    get_output(*check, "--allow", "../disk")
    with monkeypatch.context() as patch:
        patch.setenv("LOOKTWICE_ALLOW", str(lab / "disk"))
        get_output(*check)
    monkeypatch.setattr(options, "is_terminal", lambda: True)
    assert "../own/set reads ../disk, outside its own folder" in get_answered_output("y", *check)
    get_output(*check)


def test_a_study_with_a_custom_reader_is_scored_from_any_folder(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = lab / "study" / "word_lists.py"
    plugin.write_text(READER)
    write("../own/set", "read: {use: word_lists.WordList, words: ../own/replies.jsonl}\n")
    get_refusal("check", "study.yaml", "--plugin", "word_lists.py")
    get_output("run", "study.yaml", "--allow", "../own", "--plugin", "word_lists.py")
    monkeypatch.chdir(lab / "own" / "set")
    runs = lab / "study" / "runs"
    assert "100.0" in get_output("score", runs / "study", "--plugin", plugin)
    shutil.copytree(runs / "study", runs / "copy")
    score = ("score", runs / "copy", "--plugin", plugin)
    assert "the run's folder" in get_refusal(*score)
    assert "100.0" in get_output(*score, "--allow", lab / "own")


TAKEN = """
run study.yaml --allow ../own --out taken
run study.yaml --allow ../own --out taken/deeper
check study.yaml --allow ../own --out taken
score runs/study --allow ../own --out taken
merge runs/study --out taken
compare runs/study runs/study --allow ../own --out taken
discover study.yaml --allow ../own --out taken
"""


@needs_extras
def test_an_unwritable_folder_is_reported_with_its_option(lab: Path) -> None:
    write("../own/set")
    get_output("run", "study.yaml", "--allow", "../own")
    Path("taken").touch()
    for words in map(str.split, TAKEN.strip().splitlines()):
        fault = f"--out {words[-1]} cannot be written (taken is a file); give --out a path"
        assert fault in get_output(*words, code=2)
    assert "this is a folder; name the YAML file of a study" in get_output("run", lab, code=2)


def test_an_error_elsewhere_is_not_attributed_to_the_output_folder(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = str(Path.cwd())
    for arguments in ((111, "Connection refused"), (13, "Denied", "data"), (1, "No", here)):
        error = OSError(*arguments)
        with pytest.raises(Exit), handle_input_errors(out=Path("runs")):
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
    output = get_output("check", "study.yaml", code=2)
    assert "1 fault, listed at the end" in output and "no faults" not in output
    assert "2 samples would fail for a mark outside its image; the first: sample q2: " in output
    assert "2 faults in the samples" in get_output("check", "study.yaml", "--all", code=2)
    get_output("run", "study.yaml", "models.gpt4v.answer='(A)'", code=1)
    records = RunFolder(Path("runs/study")).records()
    failed = [key[1] for key, record in records.items() if record.error]
    assert sorted(failed) == ["q2", "q2", "q4", "q4"]
