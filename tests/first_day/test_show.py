"""One question of a run: the answer, the reason for its score, and where an agent looked."""

import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from looktwice.eval import evaluate
from looktwice.eval.display.printable import make_file_names
from looktwice.eval.display.table import score_table
from looktwice.eval.tasks import Folder
from looktwice.pipelines import Pipeline, Reply, Scripted
from looktwice.pipelines.model import Messages, ToolCall
from looktwice.prompting import Ask
from looktwice.prompting.agent import Agent, Zoom
from tests.first_day.studies import get_output, looktwice

STUDY = """
task: {use: eval.tasks.Folder, path: own}
model: {use: pipelines.models.Scripted, answer: "It must be blue, or <b>red</b>."}
stages:
  mark: {use: prompting.markers.Circles, radius: 5}
  ask: {use: prompting.turns.Ask}
sweep: {stages.mark.radius: [5, 9]}
contestants:
  plain: {}
  whole: {read: {use: eval.readers.WholeReply}}
  chance: {replace: true, stages: {answer: {use: specialists.answers.Chance}}}
"""
IDS = ("a/b", "a:b", "Con", "con", "plain.", "ends ")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run with ids that are no file names, and markup in question and reply."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    Image.new("RGB", (60, 40), "red").save(tmp_path / "own" / "x.png")
    question = "<script>alert(1)</script> Which colour?"
    row = {"question": question, "images": ["x.png"], "choices": ["red", "blue"], "answer": "B"}
    lines = "".join(json.dumps(row | {"id": name}) + "\n" for name in IDS)
    (tmp_path / "own" / "samples.jsonl").write_text(lines)
    (tmp_path / "study.yaml").write_text(STUDY)
    get_output("run", "study.yaml")
    return tmp_path / "runs" / "study"


def show_lines(*words: object) -> list[str]:
    return looktwice("view", words[0], "--sample", *words[1:]).output.splitlines()


def test_show_prints_verdict_answer_and_reason_under_the_labels_of_the_table(folder: Path) -> None:
    lines = show_lines(folder, "a/b")
    labels = [line for line in lines if not line.startswith(" ") and ": " not in line]
    rows = score_table([folder]).rows
    assert labels == list(dict.fromkeys(row.contestant for row in rows if row.point))
    outcomes = [line.strip() for line in lines if "the correct answer is 'B'" in line]
    assert len(outcomes) == len(labels)
    assert outcomes[0].startswith("UNREADABLE: unread: ") and outcomes[0].count("unread") == 1
    assert any("set by a stage; the correct answer is 'B'" in line for line in outcomes)
    reply = "'It must be blue, or <b>red</b>.'"
    why = f"the reader answered {reply}, which is not one of A, B"
    assert (
        outcomes[-1]
        == f"UNREADABLE: {reply}, read by whole_reply: {why}; the correct answer is 'B'"
    )
    (page,) = (folder / "show").iterdir()
    text = page.read_text()
    assert "<script" not in text and "<b>red" not in text and "&lt;b&gt;red&lt;/b&gt;" in text


def test_show_reports_a_scoring_failure_and_an_unasked_arm(folder: Path) -> None:
    path = folder / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    answered = next(line for line in lines if '"answer":"' in line and '"sample":"a/b"' in line)
    path.write_text("".join(line for line in lines if line != answered))
    assert "not asked yet: chance" in show_lines(folder, "a/b")
    path = folder / "samples.jsonl"
    path.write_text(re.sub(r'"answer": ?"B"', '"answer":"E"', path.read_text()))
    assert "FAILED: the correct answer 'E' is none of A, B" in get_output(
        "view", folder, "--sample", "a/b"
    )
    failed = "<h3>failed</h3><pre>the correct answer &#39;E&#39; is none"
    assert failed in next((folder / "show").iterdir()).read_text()


def test_show_prints_the_requested_arms(folder: Path) -> None:
    labels = show_lines(folder, "a/b", "--arm", "whole")
    assert [line for line in labels if line.startswith("whole [")] and "chance" not in labels
    one = show_lines(folder, "a/b", "--arm", "chance", "--arm", "plain [mark.radius=9]")
    assert [line for line in one if line in ("chance", "plain [mark.radius=9]")]
    assert not any(line.startswith("whole") for line in one)
    near = "--arm wholes does not exist; did you mean 'whole'?"
    assert get_output("view", folder, "--sample", "a/b", "--arm", "wholes", code=2).strip() == near


def test_the_pages_of_two_samples_have_distinct_valid_file_names(folder: Path) -> None:
    for name in IDS:
        get_output("view", folder, "--sample", name)
    written = [path.name for path in (folder / "show").iterdir()]
    assert len({name.casefold() for name in written}) == len(IDS)
    for name in written:
        assert re.fullmatch(r"[\w. -]+\.html", name) and not re.match(r"(?i)con\b", name), name
        assert not re.search(r"[. ]\.html$", name)
    assert make_file_names(["val_12", "é"]) == {"val_12": "val_12", "é": "é"}


def look_once(messages: Messages) -> Reply:
    """Request a zoom and then answer."""
    if any(message.role == "assistant" for message in messages):
        return Reply("(A)")
    call = ToolCall("1", "zoom", '{"image": 1, "box": [0.5, 0, 1, 0.5]}')
    return Reply("Closer.", "tool", tool_calls=(call,))


def test_tool_calls_of_an_agent_are_shown_in_order_with_their_box(
    folder: Path, tmp_path: Path
) -> None:
    agent = Pipeline({"agent": Agent({"zoom": Zoom()}, coordinates="0-1")})
    arms, out = {"agent": agent, "ask": Pipeline({"ask": Ask()})}, tmp_path / "runs" / "agents"
    evaluate(Folder(tmp_path / "own"), arms, Scripted(look_once), out=out)
    lines = [line.strip() for line in show_lines(out, "a/b", "--out", "one.html")]
    look = lines.index('look 1: zoom {"box":[0.5,0.0,1.0,0.5],"image":1} -> shown: image 2')
    assert lines.index("reply: 'Closer.'") + 1 == look == lines.index("reply: '(A)'") - 3
    text = Path("one.html").read_text()
    section = text[text.index("<h2>agent</h2>") : text.index("<h2>ask</h2>")]
    words = [
        "Image 1:",
        "Closer.",
        "look 1: zoom",
        "requested",
        "the 3 turns above",
        "Image 2:",
        "(A)",
    ]
    places = [section.index(word) for word in words]
    assert places == sorted(places)


OWN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Nothing:
    def __call__(self, state, model):
        return state
"""


@pytest.mark.slow
def test_a_run_with_a_custom_stage_names_the_plugin_to_pass(folder: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "own stage" / "stage_of_show.py"
    plugin.parent.mkdir()
    plugin.write_text(OWN)
    study = STUDY.replace("prompting.markers.Circles, radius: 5", "stage_of_show.Nothing")
    (tmp_path / "own.yaml").write_text(study.replace("sweep: {stages.mark.radius: [5, 9]}", ""))
    get_output("run", "own.yaml", "--plugin", plugin)
    get_output("replay", "runs/own")
    shutil.copytree("runs/own", "runs/sent")
    for words in (("view", "runs/sent", "--sample", "a/b"), ("replay", "runs/sent")):
        assert f"add to the command: --plugin '{plugin}'" in get_output(*words, code=2)
        get_output(*words, "--plugin", plugin)
