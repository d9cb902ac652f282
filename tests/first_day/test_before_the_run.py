"""What a newcomer is told before anything is paid: keys, stages, requests, costs, paths, names and
own classes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from looktwice.eval import RunFolder, evaluate
from looktwice.eval.tasks import Photos
from looktwice.pipelines import Pipeline, Reply, Scripted
from looktwice.pipelines.model import Messages, ToolCall
from looktwice.prompting.agent import Agent
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study

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
    """A folder with a study and a file of own classes, which imports a file beside it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.module, self.plugin = folder, name, f"{name}.py"
        (folder / "beside").mkdir()
        (folder / self.plugin).write_text(MINE.format(sibling=f"sibling_{name}"))
        (folder / f"sibling_{name}.py").write_text("X = 1\n")
        self.write("http://127.0.0.1:9/v1")

    def write(self, url: str, name: str = "study.yaml") -> None:
        """The study, with this server."""
        (self.folder / name).write_text(STUDY.format(module=self.module, url=url))

    def __call__(self, command: str, *words: str, code: int, study: str = "study.yaml") -> str:
        result = looktwice(command, study, "--plugin", self.plugin, *words)
        assert result.exit_code == code, result.output
        return result.output


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


def test_check_all_names_keys_that_no_answer_can_match_and_ids_that_come_twice(own: Own) -> None:
    """`check --all` said "no faults", and the run asked every question and failed them in
    scoring."""
    said = own("check", "--all", "task.keys=AEA", code=2)
    assert (
        "task, sample 1: the key 'E' is none of A, B" in said and "1 fault in the samples" in said
    )
    assert "task, sample 0: the id comes twice" in own("check", "--all", "task.ids='010'", code=2)
    own("check", "--all", code=0)


def test_a_question_whose_key_is_wrong_is_not_paid(own: Own) -> None:
    with chat_server() as server:
        own.write(server.url)
        own("run", "task.keys=AEA", code=1)
        assert server.stats["requests"] == 2
    failed = [record for record in RunFolder(Path("runs/study")).records().values() if record.error]
    assert [record.sample for record in failed] == ["1"]
    assert failed[0].error == "the key 'E' is none of A, B, so nothing was asked; mend the task"


@pytest.mark.parametrize("command", ["check", "run", "make"])
def test_a_task_that_raises_is_a_sentence_with_its_place(own: Own, command: str) -> None:
    """An own task that raised gave forty lines of the command line's own code."""
    said = own(command, "task.broken=0", code=2)
    line = 1 + MINE.splitlines().index('                raise KeyError("colour")')
    assert f"Lines.__iter__ ({own.folder / own.plugin}:{line}) raised KeyError: 'colour'" in said
    assert "Traceback" not in said


def test_a_stage_that_fails_before_the_model_is_asked_is_a_fault(own: Own) -> None:
    """`check` said "no faults" and ended with 0, where every sample would have failed."""
    said = own("check", f"stages.own={{use: {own.module}.GivesNone, before: ask}}", code=2)
    assert "no faults" not in said.splitlines()[0] and "1 fault" in said.splitlines()[0]
    assert "contestants.plain.stages.own: sample 0 of task: TypeError: " in said
    said = own("check", f"stages.own={{use: {own.module}.GivesNone, after: ask}}", code=0)
    assert "no faults" in said.splitlines()[0] and "FAILED: TypeError" in said, (
        "the made-up reply may be to blame"
    )


def test_check_does_not_say_that_there_is_no_answer_where_it_is_read_later(own: Own) -> None:
    """`check` said "answer: none" of every contestant."""
    said = own("check", code=0)
    assert "answer: read at scoring" in said and "answer: none" not in said


def test_a_run_says_what_is_left_to_ask(tmp_path: Path) -> None:
    """A continued run announced all requests again, and a run whose replies were in the cache twice
    as many."""
    with chat_server() as server:
        config = write_study(tmp_path, server.url, n=6)
        first = looktwice("run", config, "--out", tmp_path, "--limit", "2").output
        more = looktwice("run", config, "--out", tmp_path).output
        again = looktwice("run", config, "--out", tmp_path).output
        shown = looktwice("run", config, "--out", tmp_path, "--limit", "3").output
        asked = server.stats["requests"]
    assert (
        "about to ask 2 requests, " in first
        and "about to ask up to 4 requests, " in more
        and asked == 6
    )
    assert "about to ask" not in again + shown


def test_a_cost_of_guessed_tokens_is_said_to_be_about(tmp_path: Path) -> None:
    """ "cost at most 0.02" was exceeded: tokens of words are estimated, and those of pictures may
    be a guess."""
    config = write_study(tmp_path, "http://127.0.0.1:9/v1")
    said = looktwice(
        "check", config, "model.prices={in: 2.5, out: 10}", "model.max_tokens=100"
    ).output
    assert ", out at most 400; cost about 0.00" in said and "with the longest replies" in said
    assert "cost at most" not in said


@pytest.mark.parametrize("setting", ["path: %s", "more: [study.yaml, %s]", "named: {a: %s}"])
def test_every_path_of_an_own_task_is_fenced_and_counts_from_the_file(
    own: Own, setting: str
) -> None:
    """A `Path` was looked for beside the YAML and fenced, a `tuple[Path, ...]` was neither."""
    text = (own.folder / "study.yaml").read_text()
    study = own.folder / "beside" / "study.yaml"
    for path, code, says in (
        ("..", 2, "lies outside"),
        ("nothing", 2, "does not exist"),
        ("study.yaml", 0, ""),
    ):
        study.write_text(text.replace(".Lines}", f".Lines, {setting % path}}}"))
        assert says in own("check", code=code, study="beside/study.yaml")


def test_what_a_class_lacks_is_named(own: Own) -> None:
    """ "a task belongs here, and NoFacts makes none"."""
    said = own("check", f"task={{use: {own.module}.NoFacts}}", code=2)
    assert "a task has `facts`, `__len__`, `__iter__`; NoFacts lacks `facts`, `__len__`" in said
    said = own("check", f"stages.ask={{use: {own.module}.NotCalled}}", code=2)
    assert "NotCalled lacks `__call__(self, state, model)`" in said


def test_a_file_whose_name_names_no_folder_is_told_what_to_write(own: Own) -> None:
    """ "name: None names a folder; use letters..."."""
    own.write("http://127.0.0.1:9/v1", "my study (1).yaml")
    said = own("check", code=2, study="my study (1).yaml")
    assert "'my study (1)'" in said and "write `name: my-study-1`" in said
    assert "write `name: a-b`" in own("check", "name=a/b", code=2)


def test_contestants_that_differ_in_draws_alone_are_told_what_to_do(own: Own) -> None:
    """Refused as "the same as 'plain'", though the file says `draws: 5` of one."""
    said = own("check", "contestants={plain: {}, often: {draws: 5}}", code=2)
    assert (
        "the same as 'plain'" in said
        and "give the other `draws: 5`: draws alone are no difference" in said
    )


def test_a_fault_of_a_setting_stands_at_its_place(tmp_path: Path) -> None:
    """The fault of `prices` stood at `models.chat`."""
    config = write_study(tmp_path, "http://127.0.0.1:9/v1")
    said = looktwice("check", config, "model.prices={in: 2.5}").output
    assert said.startswith("model.prices: prices need `in` and `out`")
    assert looktwice("check", config, "model.in_flight=0").output.startswith("model.in_flight: ")


def test_the_sentence_of_a_dead_server_has_no_word_of_the_library(tmp_path: Path) -> None:
    """ "Cannot connect to host 127.0.0.1:9 ssl:default"."""
    said = looktwice(
        "run", write_study(tmp_path, "http://127.0.0.1:9/v1"), "--out", tmp_path
    ).output
    assert "cannot be reached" in said and "ssl:default" not in said


def test_the_version_is_told() -> None:
    assert looktwice("--version").output.startswith("looktwice ")


def test_show_prints_what_a_tool_gave_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal showed that a tool was called, and not what it said."""

    def look_once(messages: Messages) -> Reply:
        if any(message.role == "assistant" for message in messages):
            return Reply("(A)")
        return Reply("", "tool", tool_calls=(ToolCall("1", "lamp", "{}"),))

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("lamp_of_show.py").write_text(LAMP)
    from lamp_of_show import Lamp  # type: ignore[import-not-found]

    task = Photos("jigsaw", n=1)
    evaluate(
        task,
        {"agent": Pipeline({"agent": Agent({"lamp": Lamp()})})},
        Scripted(look_once),
        out="run",
    )
    sample = next(iter(task)).sample.id
    lines = [
        line.strip()
        for line in looktwice(
            "show", "run", sample, "--plugin", "lamp_of_show.py"
        ).output.splitlines()
    ]
    (look,) = [number for number, line in enumerate(lines) if line.startswith("look 1: lamp")]
    assert lines[look + 1] == "told: 'the lamp is on'"


LAMP = """
from dataclasses import dataclass
from typing import ClassVar

from looktwice.prompting.agent import Arguments, ToolResult


class NoArguments(Arguments):
    pass


@dataclass(frozen=True)
class Lamp:
    description: str = "Says whether the lamp is on."
    arguments: ClassVar[type[Arguments]] = NoArguments

    def __call__(self, state, arguments):
        return ToolResult("the lamp is on")
"""


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_study_of_which_nobody_is_left_is_no_success(tmp_path: Path, command: str) -> None:
    """blink_val without its saved replies was checked with "no faults", and its run ended well with
    nothing."""
    config = tmp_path / "study.yaml"
    config.write_text(
        "tasks: {own: {use: eval.tasks.Photos, kind: jigsaw, n: 2}}\ncontestants: {one: {needs:"
        " {env: NOT_SET_ANYWHERE}, stages: {answer: {use: specialists.answers.Chance}}}}\n"
    )
    ended = looktwice(command, config, *(("--out", tmp_path) if command == "run" else ()))
    assert ended.exit_code == 2 and "left out: one (" in ended.output, ended.output
    assert "no contestant is left to run" in ended.output
