"""Runs with worker processes: records, requests and messages equal those without them, also if one
is killed, the run is stopped or the server refuses."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from io import BytesIO, StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from looktwice.eval import Facts, Robust, RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.runs.companions import RunStart
from looktwice.eval.runs.options import RunSummary
from looktwice.eval.runs.run import Run
from looktwice.eval.runs.run_models import RunModels
from looktwice.eval.runs.trial import Progress
from looktwice.eval.scoring.notes import COST_FILE
from looktwice.extras.executors.messages import RecordMade, SampleEnded, pickle_message
from looktwice.extras.executors.process import Fork, Process
from looktwice.extras.executors.processes import (
    MIN_RECORDS,
    PROCESSES_VARIABLE,
    Processes,
    count_processes,
    has_own_classes,
)
from looktwice.pipelines import ChatAPI, Item, Picture, Point, Sample, Scripted
from looktwice.pipelines.config import Plan
from looktwice.pipelines.config.plan import add_id
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.encodings.image_files import to_png
from looktwice.pipelines.model import Model
from looktwice.pipelines.models import Pocket
from looktwice.pipelines.state import State, WithoutModel
from looktwice.prompting import Ask, Circles, MultipleChoice, ZoomOnMarks
from looktwice.prompting.controls import OtherImage, PermuteChoices
from tests.chat_server import chat_server
from tests.paths import ROOT
from tests.tables import table


@dataclass(frozen=True)
class Noise:
    """Pictures of noise with a point, some as pixels and some encoded. One cannot be read, and one
    has its point so close to the edge that its label does not fit."""

    n: int = 20

    @property
    def facts(self) -> Facts:
        return Facts("noise")

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Item]:
        for number in range(self.n):
            side = 14 if number == 3 else 64
            pixels = np.random.default_rng(number).integers(0, 256, (side, side, 3), np.uint8)
            picture = Picture(pixels) if number % 2 else Picture.encoded(to_png(pixels))
            if number == 4:
                picture = Picture.encoded(b"no image", "broken")
            marks = (Point("A", 7.0, 7.0),)
            yield Item(Sample(f"n{number}", "Which?", (picture,), ("one", "two"), marks), "A")


@dataclass(frozen=True)
class Own(WithoutModel):
    """A custom stage."""

    def __call__(self, state: State, model: Model) -> State:
        return state


ARMS: dict[str, dict[str, Any]] = {
    "circles": {"mark": Circles()},
    "zoomed": {"mark": Circles(radius=5), "zoom": ZoomOnMarks()},
    "shuffled": {"mark": Circles(), "shuffle": PermuteChoices()},
    "plain": {},
}
RECORDS, FAILED, ASKED = 80, 7, 62
"""The expected counts: if the two choices stay in order, two arms ask the same."""


def plan_of(
    model: Any, stages: Mapping[str, Mapping[str, Any]] = ARMS, task: Any = Noise()
) -> Plan:
    """Return a study of these arms."""
    arms = []
    for name, first in stages.items():
        whole = {**first, "choose": MultipleChoice(), "ask": Ask()}
        arms.append(add_id(Arm(name, {}, "noise", task, model, whole, Robust(), 1, 0)))
    return Plan("asked", tuple(arms))


def run(
    folder: Path,
    url: str,
    processes: int,
    monkeypatch: pytest.MonkeyPatch,
    task: Any = Noise(),
    executor: Processes | None = None,
    **settings: Any,
) -> tuple[RunSummary, list[dict[str, Any]], str]:
    """Return how a run with this many processes ends, its records without times, and messages."""
    monkeypatch.setenv(PROCESSES_VARIABLE, str(processes))
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)  # tested elsewhere
    text, model = StringIO(), ChatAPI("tiny", url, **{"in_flight": 8, **settings})
    options, console = RunOptions(workers=8), Console(file=text, width=200)
    summary = Study(
        plan_of(model, task=task), folder, options, console=console, executor=executor
    )()
    rows = []
    for record in RunFolder(folder / "asked").last_records():
        row = json.loads(record.to_line())
        row.pop("timings")
        row["error"] = re.sub(r" at 0x\w+|line \d+", "", row["error"])
        rows.append(row)
    rows.sort(key=lambda row: (row["point"], row["sample"]))
    return summary, rows, text.getvalue()


def blobs(folder: Path) -> set[str]:
    """Return the stored pictures and messages."""
    return {path.name for path in (folder / "asked" / "blobs").glob("*/*")}


class Killing(Processes):
    """Kills the first process that sends a record."""

    killed: tuple[Process, ...] = ()

    def _handle_event(self, process: Process, event: Any, writer: Any) -> None:
        super()._handle_event(process, event, writer)
        if isinstance(event, RecordMade) and not self.killed:
            self.killed = (process,)
            process.handle.kill()


class Stopping(Processes):
    """Stops the run at the tenth record, as Ctrl-C does."""

    def _handle_event(self, process: Process, event: Any, writer: Any) -> None:
        super()._handle_event(process, event, writer)
        if self.run.progress.counts["written"] == 10:
            self.run.progress.drain.set()


class Hanging(Processes):
    """One process hangs, and the run is aborted, as by pressing Ctrl-C twice."""

    def _handle_event(self, process: Process, event: Any, writer: Any) -> None:
        super()._handle_event(process, event, writer)
        progress = self.run.progress
        if isinstance(event, RecordMade) and not progress.stop.is_set():
            os.kill(process.handle.pid, signal.SIGSTOP)
            progress.drain.set()
            progress.stop.set()
            process.send(bytes(4 << 20))  # which it does not read


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Processes, Killing])
def test_records_equal_those_without_processes(
    kind: type[Processes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, beside, was_killed = tmp_path / "alone", tmp_path / "beside", kind is Killing
    with chat_server(None, "--delay", "0.05") as server:
        _, expected, _ = run(alone, server.url, 0, monkeypatch)
        assert server.stats["requests"] == ASKED
        summary, rows, said = run(beside, server.url, 2, monkeypatch, executor=kind())
        seen = server.stats
    assert rows == expected and len(rows) == RECORDS and blobs(beside) == blobs(alone)
    assert (summary.written_count, summary.failed_count, summary.is_stopped) == (
        RECORDS,
        FAILED,
        False,
    )
    # only a request that was in flight in it is sent again
    assert 0 <= seen["requests"] - 2 * ASKED <= 4 * was_killed
    assert ("a worker process has ended (exit status -9)" in said) == was_killed
    assert seen["most_in_flight"] <= 8
    if not was_killed:
        assert f"tokens {ASKED * 100} in {ASKED * 7} out" in said


def test_a_pickled_picture_keeps_its_hash() -> None:
    picture = Picture.encoded(to_png(np.zeros((20, 30, 3), np.uint8)))
    (sent,) = pickle.loads(pickle_message([picture]))
    assert vars(sent)["_sha"] == picture.sha and sent.source == picture.source


@pytest.mark.slow
def test_a_process_that_never_starts_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    monkeypatch.setattr(
        "looktwice.extras.executors.process.start_interpreter",
        lambda: subprocess.Popen(sleeping, **pipes),  # type: ignore[call-overload]
    )
    monkeypatch.setattr("looktwice.extras.executors.processes.START_TIMEOUT", 0.5)
    with chat_server(None) as server:
        summary, rows, sentences = run(tmp_path, server.url, 2, monkeypatch)
    assert (summary.failed_count, len(rows)) == (FAILED, RECORDS)
    assert sentences.count("a worker process has ended (exit status -9)") == 2


@pytest.mark.slow
def test_a_stopped_run_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_server(None, "--delay", "0.05") as server:
        stopping = Stopping()
        summary, rows, _ = run(tmp_path, server.url, 2, monkeypatch, executor=stopping)
        assert summary.is_stopped and 10 <= len(rows) < RECORDS
        summary, rows, _ = run(tmp_path, server.url, 2, monkeypatch)
        assert not summary.is_stopped and len(rows) == RECORDS
        assert server.stats["requests"] == ASKED


@pytest.mark.slow
def test_a_hanging_process_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("looktwice.extras.executors.processes.STOP_TIMEOUT", 0.5)
    monkeypatch.setenv(PROCESSES_VARIABLE, "2")
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    plan, console = plan_of(Pocket(), {"plain": {}}, Noise(400)), Console(file=StringIO())
    summary = Study(plan, tmp_path, RunOptions(workers=4), console=console, executor=Hanging())()
    assert summary.is_stopped and 1 <= summary.written_count < 400


@pytest.mark.slow
def test_refusals_and_costs_are_summed_over_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = {"in": 1000.0, "out": 0.0}
    with chat_server(None, "--fail", "429=0.1", "--retry-after", "0") as server:
        summary, _, sentences = run(tmp_path, server.url, 2, monkeypatch, prices=prices)
        refused = server.stats["requests"] - ASKED
    assert refused > 0 and summary.failed_count == FAILED
    place = server.url.removeprefix("http://")
    times = "1 time" if refused == 1 else f"{refused} times"
    assert f"the server at {place} asked to wait {times} (429); all were retried" in sentences
    spent, max_cost, *_ = (tmp_path / "asked" / COST_FILE).read_text().split("\n")
    assert float(spent) == pytest.approx(ASKED * 0.1)
    assert [*json.loads(max_cost).values()] == pytest.approx([0.1])  # a later budget needs it


@pytest.mark.slow
def test_a_dead_server_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, task = "http://127.0.0.1:9/v1", Noise(4000)
    summary, rows, _ = run(tmp_path, url, 2, monkeypatch, task)
    begun = (tmp_path / "asked" / "samples.jsonl").read_bytes().count(b"\n")
    assert begun < 100  # questions that are no longer asked are not generated either
    assert summary.is_stopped and "cannot be reached" in summary.why
    assert {row["sample"] for row in rows} <= {"n3", "n4"}  # these cannot be asked


@pytest.mark.slow
def test_ctrl_c_ends_in_order_and_a_killed_run_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    rows = [
        {"id": f"q{n}", "question": f"Which of {n}?", "choices": ["a", "b"]} for n in range(200)
    ]
    lines = "".join(json.dumps({**row, "answer": "A"}) + "\n" for row in rows)
    (tmp_path / "own" / "samples.jsonl").write_text(lines)
    with chat_server(None, "--delay", "0.2") as server:
        (tmp_path / "s.yaml").write_text(
            "task: {use: eval.tasks.Folder, path: own}\n"
            f"model: {{use: pipelines.models.ChatAPI, model: tiny, url: {server.url}}}\n"
            "stages: {ask: {use: prompting.turns.Ask}}\n"
        )
        command = [sys.executable, "-c", "from looktwice.eval.cli import main; main()", "run"]
        command += ["s.yaml", "--workers", "4"]
        environment = {
            **os.environ,
            PROCESSES_VARIABLE: "2",
            "PYTHONPATH": f"{ROOT / 'typings'}:{ROOT}",
        }
        for number, is_over in ((signal.SIGINT, True), (signal.SIGKILL, False)):
            begun = server.stats["replies"]
            with subprocess.Popen(
                command, cwd=tmp_path, env=environment, stdout=-1, stderr=-1, text=True
            ) as process:
                while server.stats["replies"] < begun + 8:
                    assert process.poll() is None
                process.send_signal(number)
                output, errors = process.communicate(timeout=30)
            if is_over:
                assert process.returncode == 130 and "stopping: no new requests" in errors, errors
                assert "Traceback" not in output + errors
                recorded = RunFolder(tmp_path / "runs" / "s").records()
                assert len(recorded) == server.stats["replies"] == server.stats["requests"]
        for _ in range(50):  # they notice that the run has ended
            if not (left := _in_folder(tmp_path)):
                break
            time.sleep(0.1)
        assert not left


class Letter(StrEnum):
    """The answer key of a question, in a class of a user's script."""

    A = "A"


@dataclass(frozen=True)
class Keyed(Noise):
    """Questions whose key has a class that other processes do not know."""

    def __iter__(self) -> Iterator[Item]:
        for item in super().__iter__():
            yield replace(item, answer=Letter.A)


@pytest.mark.slow
def test_samples_of_an_unknown_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Letter, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Letter", Letter, raising=False)
    monkeypatch.setenv(PROCESSES_VARIABLE, "2")
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    text, plan = StringIO(), plan_of(Pocket(), {"plain": {}}, Keyed())
    summary = Study(plan, tmp_path, RunOptions(workers=4), console=Console(file=text))()
    assert (summary.written_count, summary.failed_count) == (20, 1)
    assert "has ended" not in text.getvalue()


def test_a_failure_held_back_in_an_ending_process_is_repeated(tmp_path: Path) -> None:
    words = list[str]()
    models = RunModels(Progress(), tmp_path, False, say=words.append)
    processes = Processes()
    processes.start(Run(plan_of(CHAT), tmp_path, models=models))
    walk, recorded = SimpleNamespace(wanted_arms={"a", "b"}), SimpleNamespace(wanted_arms=set())
    process = SimpleNamespace(
        asked={1: walk, 2: recorded, 3: walk},
        over={},
        has_ended=False,
        answers=BytesIO(),
        handle=SimpleNamespace(kill=lambda: None, wait=lambda: -9),
    )
    writer: Any = None
    for number in (1, 2):
        processes._handle_event(process, SampleEnded(number), writer)  # type: ignore[arg-type]
    assert processes._receive(process) == []  # type: ignore[arg-type]
    assert process.has_ended and process.asked == {1: walk, 3: walk}
    assert "exit status -9" in words[0]


def test_a_forked_process_is_waited_for_if_its_status_is_lost() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        fork = Fork()
        fork.kill()
        assert fork.wait() == 0
    finally:
        signal.signal(signal.SIGCHLD, before)
    fork.kill()
    fork.stdin.close()
    fork.stdout.close()


def _in_folder(folder: Path) -> list[str]:
    """Return the processes that work in this folder."""
    numbers = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            numbers += [path.parent.name] if path.resolve() == folder else []
    return numbers


CHAT = ChatAPI("tiny", "http://127.0.0.1:9/v1")


@table
def test_where_processes_are_started(
    model: str,
    arms: str,
    options: dict[str, Any],
    lacking: int,
    given: str,
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PROCESSES_VARIABLE, given)
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {*range(6)}, raising=False)
    stages: dict[str, Any] = {"all": ARMS, "one": {"plain": {}}, "own": {"own": {"own": Own()}}}
    models = {"chat": CHAT, "script": Scripted("(A)"), "pocket": Pocket()}
    asked = models.get(model) or ChatAPI("m", in_flight=int(model))
    run = Run(plan_of(asked, stages[arms]), tmp_path / "run", RunOptions(**options))
    assert count_processes(run, MIN_RECORDS - lacking if lacking >= 0 else 3) == number


def test_classes_inside_settings_are_not_inspected() -> None:
    assert not has_own_classes({"kind": OtherImage}) and has_own_classes({"mark": Circles()})


def test_a_finished_run_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROCESSES_VARIABLE, "2")
    (tmp_path / "records.jsonl").touch()
    run = Run(plan_of(CHAT), tmp_path, models=RunModels(Progress(), tmp_path, False))
    processes, work = Processes(), RunStart(None, {}, set(), {})
    processes.start(run)
    assert [*processes.execute(run, work, iter(()))] == [] and not processes.processes
