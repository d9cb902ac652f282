"""Files and servers that hold control characters for the terminal: every command shows them and
obeys none."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from looktwice.eval import Photos, evaluate
from looktwice.eval.cli import app
from looktwice.eval.display.printable import printable
from looktwice.specialists import Chance
from tests.chat_server import chat_server

EVIL = "\x1b]0;owned\x07\x1b[2J\u202ered [bold]\x9b31m[/nothing]"
STUDY = """
task: {use: eval.tasks.Folder, path: questions}
model: {use: pipelines.models.ChatAPI, model: m, url: URL}
stages: {choose: {use: prompting.wording.MultipleChoice}, ask: {use: prompting.turns.Ask}}
contestants: {"plain": {}, "loEVILud": {stages: {ask: {system: "EVIL"}}}}
"""


def obeyed(text: str) -> str:
    """The control characters in what was printed, apart from line breaks."""
    return "".join(sorted({c for c in text if printable(c) != c}))


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "questions"
    folder.mkdir()
    rows = [
        {"id": f"q{n}{EVIL}", "question": f"Is it {EVIL}?", "choices": ["yes", EVIL], "answer": "A"}
        for n in (1, 2)
    ]
    rows[1]["question"] = f"fail #400 {EVIL}"
    (folder / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "study.yaml").write_text(STUDY.replace("EVIL", "\\x1b[2J\\u202e"))
    return tmp_path / "study.yaml"


def test_no_command_obeys_what_a_file_or_server_says(study: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "study"
    with chat_server() as server:
        study.write_text(study.read_text().replace("URL", server.url))
        printed = {
            "check": call("check", study),
            "run": call("run", study, "--out", tmp_path / "runs"),
            "score": call("score", run),
            "report": call("report", run),
            "show": call("show", run, f"q1{EVIL}"),
            "show another": call("show", run, EVIL),
            "replay": call("replay", run),
            "trajectories": call("trajectories", run, "--out", tmp_path / "t.jsonl"),
            "fault": call("check", study, f"stages.ask.{EVIL}=1"),
        }
    assert {name: obeyed(result.output) for name, result in printed.items()} == dict.fromkeys(
        printed, ""
    )
    assert "\\x1b]0;owned" in printed["show"].output, printed["run"].output + repr(
        printed["run"].exception
    )
    assert [name for name, result in printed.items() if "Traceback" in result.output] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\r", "\\r"),
        ("\u202e", "\\u202e"),
        ("é 中 😀", "é 中 😀"),
    ],
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "words",
    [
        ("trajectories", "RUN", "--out"),
        ("replies", "RUN", "--export"),
        ("show", "RUN", "0", "--out"),
    ],
)
def test_no_option_writes_over_the_records_of_a_run(words: tuple[str, ...], tmp_path: Path) -> None:
    evaluate(Photos("jigsaw", n=1), {"chance": Chance()}, out=tmp_path / "run")
    records = tmp_path / "run" / "records.jsonl"
    before = records.read_bytes()
    name = "jigsaw_0000" if words[0] == "show" else "0"
    asked = [
        str(tmp_path / "run") if word == "RUN" else name if word == "0" else word for word in words
    ]
    result = call(*asked, records)
    assert (result.exit_code, records.read_bytes()) == (2, before), result.output
    assert "name another file to write" in result.output
