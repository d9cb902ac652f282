"""What is reported before anything is paid: keys, stages, requests, costs, paths, own classes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from looktwice.eval import RunFolder, evaluate
from looktwice.eval.tasks import Photos
from looktwice.pipelines import Pipeline, Reply, Scripted
from looktwice.pipelines.model import Messages, ToolCall
from looktwice.prompting.agent import Agent, Measure
from tests.chat_server import chat_server
from tests.first_day.studies import get_output, looktwice, run_study, write_study
from tests.optional import needs_extras
from tests.tables import table

MINE = """
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import {sibling}
from looktwice.eval import Facts
from looktwice.pipelines import Item, Sample


@dataclass(frozen=True)
class Lines:
    path: Path | None = None
    more: tuple[Path, ...] = ()
    named: Mapping[str, Path] | None = None
    keys: str = "AAA"
    ids: str = "012"
    broken: int = -1

    @property
    def facts(self):
        return Facts()

    def __len__(self):
        return len(self.keys)

    def __iter__(self):
        for number, (name, key) in enumerate(zip(self.ids, self.keys)):
            if number == self.broken:
                raise KeyError("colour")
            yield Item(Sample(name, f"Which {{number}}?", (), ("red", "blue")), key)


@dataclass(frozen=True)
class NoFacts:
    def __iter__(self):
        yield from ()


@dataclass(frozen=True)
class NotCalled:
    x: int = 0


@dataclass(frozen=True)
class GivesNone:
    def __call__(self, state, model):
        return None
"""
STUDY = """
task: {{use: {module}.Lines}}
model: {{use: pipelines.models.ChatAPI, model: tiny, url: "{url}"}}
stages:
  choose: {{use: prompting.wording.MultipleChoice}}
  ask: {{use: prompting.turns.Ask}}
"""


class Own:
    """A folder with a study and a file of custom classes, which imports another file there."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.module, self.plugin = folder, name, f"{name}.py"
        (folder / "beside").mkdir()
        (folder / self.plugin).write_text(MINE.format(sibling=f"sibling_{name}"))
        (folder / f"sibling_{name}.py").write_text("X = 1\n")
        self.write("http://127.0.0.1:9/v1")

    def write(self, url: str, name: str = "study.yaml") -> None:
        """Write the study with this server."""
        (self.folder / name).write_text(STUDY.format(module=self.module, url=url))

    def __call__(self, command: str, *words: str, code: int, study: str = "study.yaml") -> str:
        return get_output(command, study, "--plugin", self.plugin, *words, code=code)


@pytest.fixture
def own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Own]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    number = abs(hash(request.node.name)) % 10**9
    yield Own(tmp_path, f"mine{number}")
    for name in (f"mine{number}", f"sibling_mine{number}"):
        sys.modules.pop(name, None)


@table
def test_check_names_what_would_fail(own: Own, words: list[str], code: int, fault: str) -> None:
    output = own("check", *(word.replace("MODULE", own.module) for word in words), code=code)
    assert fault in output and "answer: none" not in output
    assert code or "no faults" in output


def test_a_question_with_a_wrong_answer_key_is_not_paid_for(own: Own) -> None:
    with chat_server() as server:
        own.write(server.url)
        own("run", "task.keys=AEA", code=1)
        assert server.stats["requests"] == 2
    failed = [record for record in RunFolder(Path("runs/study")).records().values() if record.error]
    assert [record.sample for record in failed] == ["1"]
    assert (
        failed[0].error
        == "the correct answer 'E' is none of A, B, so nothing was asked; fix the task"
    )


@needs_extras
@pytest.mark.parametrize("command", ["check", "run", "make"])
def test_an_error_in_a_task_is_a_sentence_with_its_place(own: Own, command: str) -> None:
    output = own(command, "task.broken=0", code=2)
    line = 1 + MINE.splitlines().index('                raise KeyError("colour")')
    assert f"Lines.__iter__ ({own.folder / own.plugin}:{line}) raised KeyError: 'colour'" in output
    assert "Traceback" not in output


def test_a_run_reports_how_many_requests_remain(tmp_path: Path) -> None:
    with chat_server() as server:
        first = run_study(tmp_path, server.url, "--limit", "2", n=6)
        more = run_study(tmp_path, server.url, n=6)
        again = run_study(tmp_path, server.url, n=6)
        again += run_study(tmp_path, server.url, "--limit", "3", n=6)
        assert server.stats["requests"] == 6
    assert "about to send 2 requests, " in first and "about to send up to 4 requests, " in more
    assert "about to send" not in again


def test_an_estimated_cost_is_marked_as_approximate_and_faults_name_their_setting(
    tmp_path: Path,
) -> None:
    check = ("check", write_study(tmp_path, "http://127.0.0.1:9/v1"))
    output = get_output(*check, "model.prices={in: 2.5, out: 10}", "model.max_tokens=100")
    assert ", out at most 400; cost about 0.00" in output and "with the longest replies" in output
    assert "cost at most" not in output
    fault = "model.prices: prices need `in` and `out`"
    assert get_output(*check, "model.prices={in: 2.5}", code=2).startswith(fault)
    assert get_output(*check, "model.in_flight=0", code=2).startswith("model.in_flight: ")
    assert get_output("--version").startswith("looktwice ")


@pytest.mark.parametrize("setting", ["path: %s", "more: [study.yaml, %s]", "named: {a: %s}"])
def test_every_path_of_a_custom_task_is_fenced_and_relative_to_the_file(
    own: Own, setting: str
) -> None:
    text = (own.folder / "study.yaml").read_text()
    study = own.folder / "beside" / "study.yaml"
    for path, code, says in (("..", 2, "outside"), ("nothing", 2, "exist"), ("study.yaml", 0, "")):
        study.write_text(text.replace(".Lines}", f".Lines, {setting % path}}}"))
        assert says in own("check", code=code, study="beside/study.yaml")


def test_a_file_name_without_a_study_name_gets_advice(own: Own) -> None:
    own.write("http://127.0.0.1:9/v1", "my study (1).yaml")
    assert "`name: my-study-1`" in own("check", code=2, study="my study (1).yaml")


def test_show_prints_the_results_of_tools(tmp_path: Path) -> None:
    def measure_once(messages: Messages) -> Reply:
        if any(message.role == "assistant" for message in messages):
            return Reply("(A)")
        call = ToolCall("1", "measure", '{"start": [0, 0], "end": [30, 40], "image": 1}')
        return Reply("", "tool", tool_calls=(call,))

    task, arms = (
        Photos("jigsaw", n=1),
        {"agent": Pipeline({"agent": Agent({"measure": Measure()})})},
    )
    evaluate(task, arms, Scripted(measure_once), out=tmp_path / "run")
    sample = next(iter(task)).sample.id
    output = looktwice("view", tmp_path / "run", "--sample", sample).output
    lines = [line.strip() for line in output.splitlines()]
    (look,) = [number for number, line in enumerate(lines) if line.startswith("look 1: measure")]
    assert lines[look + 1].startswith("result: '50.0 pixels")


STRANDED = """
tasks: {own: {use: eval.tasks.Photos, kind: jigsaw, n: 2}}
contestants:
  one: {needs: {env: NOT_SET_ANYWHERE}, stages: {answer: {use: specialists.answers.Chance}}}
"""


def test_the_first_sentence_of_a_run_names_the_contestants_that_were_left_out(
    tmp_path: Path,
) -> None:
    config = tmp_path / "study.yaml"
    chance = "  chance: {stages: {answer: {use: specialists.answers.Chance}}}\n"
    config.write_text(STRANDED + chance + "baseline: chance\n")
    output = " ".join(get_output("run", config, "--out", tmp_path).split())
    why = "Left out: one (NOT_SET_ANYWHERE is not set). On own,"
    assert why in output
    report = (tmp_path / "study" / "report.md").read_text(encoding="utf-8")
    assert report.split("\n\n")[1].startswith("- Left out: one (")


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_study_with_no_samples_left_is_not_a_success(tmp_path: Path, command: str) -> None:
    config = tmp_path / "study.yaml"
    config.write_text(STRANDED)
    words = ("--out", tmp_path) if command == "run" else ()
    output = get_output(command, config, *words, code=2)
    assert "left out: one (" in output and "no contestant is left" in output
