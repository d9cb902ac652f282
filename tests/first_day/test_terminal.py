"""The progress line of a terminal, and control characters, which no command outputs."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from looktwice.eval import Photos, evaluate
from looktwice.eval.cli import app
from looktwice.eval.display.printable import printable
from looktwice.eval.runs.display import Display
from looktwice.eval.runs.options import Spending
from looktwice.specialists import Chance
from tests.chat_server import chat_server
from tests.optional import needs_extras
from tests.tables import table

MANY = Spending(12_345_678, 1_234_567, 123.456)


def draw_progress(width: int) -> str:
    """Return what a run writes to a terminal with this many columns."""
    screen, terminal = io.StringIO(), {"TERM": "xterm-256color"}
    console = Console(
        file=screen, width=width, force_terminal=True, legacy_windows=False, _environ=terminal
    )
    with Display(console, 24_000, lambda: MANY) as display:
        for number in range(2000):
            display.add(("right", "wrong", "unreadable", "failed")[number % 4])
    return screen.getvalue()


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_progress_is_one_line_on_a_terminal(terminal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", terminal)
    faults, last = [], {}
    for width in range(56, 120, 4):
        shown = draw_progress(width)
        lines = [re.sub(r"\x1b\[[\d;?]*\w", "", line) for line in re.split(r"[\r\n]+", shown)]
        last[width] = lines[-2]
        if (
            "\x1b[1A" in shown  # it moves up a line, so there was more than one
            or max(map(len, lines)) > width
            or not re.search(r"━━━━ +2000/24000 .* [\d:]+ left$", last[width])
        ):
            faults.append((width, last[width]))
    assert faults == []
    assert re.search(
        r" 2000/24000  r500 w500 u500 f500  cost 123.46  [\d.]+/s  [\d:]+ left$", last[80]
    )


@table
def test_less_urgent_parts_are_shortened_first(width: int, said: str) -> None:
    display = Display(Console(quiet=True), 3, lambda: MANY)
    display.started -= 100
    for verdict in ("right", "failed"):
        display.add(verdict)
    assert (
        display.format_state(width).startswith(said) and len(display.format_state(width)) <= width
    )


def test_without_prices_no_cost_is_shown_and_without_tokens_no_count() -> None:
    assert "cost" not in Display(Console(quiet=True), 3, lambda: Spending(10, 2)).format_state()
    assert "tok" not in Display(Console(quiet=True), 3, lambda: Spending(0, 0)).format_state()


EVIL = "\x1b]0;owned\x07\x1b[2J\u202ered [bold]\x9b31m[/nothing]"
STUDY = """
task: {use: eval.tasks.Folder, path: questions}
model: {use: pipelines.models.ChatAPI, model: m, url: URL}
stages: {choose: {use: prompting.wording.MultipleChoice}, ask: {use: prompting.turns.Ask}}
contestants: {"plain": {}, "loEVILud": {stages: {ask: {system: "EVIL"}}}}
"""


def find_control_characters(text: str) -> str:
    """Return the control characters in an output, except line breaks."""
    return "".join(sorted({c for c in text if printable(c) != c}))


def call(*format_state: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in format_state])


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


def test_no_command_obeys_escape_sequences_of_files_or_servers(study: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "study"
    with chat_server() as server:
        study.write_text(study.read_text().replace("URL", server.url))
        printed = {
            "check": call("check", study),
            "run": call("run", study, "--out", tmp_path / "runs"),
            "score": call("score", run),
            "report": call("score", run, "--report"),
            "show": call("view", run, "--sample", f"q1{EVIL}"),
            "show another": call("view", run, "--sample", EVIL),
            "replay": call("replay", run),
            "export": call("export", run, "--to", "trajectories", "--out", tmp_path / "t.jsonl"),
            "fault": call("check", study, f"stages.ask.{EVIL}=1"),
        }
    for name, result in printed.items():
        assert (find_control_characters(result.output), "Traceback" in result.output) == (
            "",
            False,
        ), name
    assert "\\x1b]0;owned" in printed["show"].output, printed["run"].output


@table
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert printable(text) == shown


@needs_extras
@pytest.mark.parametrize(
    "words",
    ["export RUN --to trajectories --out", "score RUN --export", "view RUN --sample 0 --out"],
)
def test_no_option_overwrites_the_records_of_a_run(words: str, tmp_path: Path) -> None:
    evaluate(Photos("jigsaw", n=1), {"chance": Chance()}, out=tmp_path / "run")
    records = tmp_path / "run" / "records.jsonl"
    before = records.read_bytes()
    asked = words.replace("sample 0", "sample jigsaw_0000").replace("RUN", str(tmp_path / "run"))
    result = call(*asked.split(), records)
    assert (result.exit_code, records.read_bytes()) == (2, before), result.output
    assert "another file" in result.output


def test_a_run_without_questions_says_so() -> None:
    console = Console(file=io.StringIO(), width=80)
    with Display(console, 3, lambda: Spending(0, 0, None)) as display:
        display.skip(3)
        assert display.format_state().startswith("nothing new to ask | took ")
