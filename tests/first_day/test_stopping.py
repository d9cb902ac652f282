"""A user stops a run: no request leaves any more, and what was on its way is paid for once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from looktwice.eval import Photos, evaluate
from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.runs.predict import Run, RunOptions
from looktwice.pipelines import ChatAPI, Model, Pipeline, Scripted, State
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.plan import Plan, with_id
from looktwice.pipelines.model import Message, Stopped
from looktwice.pipelines.models import Limited
from looktwice.prompting import Ask
from looktwice.specialists import Chance
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, send, when, write_study

VARIANTS = """
each: [{stages.choose: null}, {model.temperature: 1}]
contestants:
  plain: {}
  more: {stages: {think: {use: prompting.wording.ChainOfThought, before: ask}}}
"""
QUESTIONS = 4 * 2 * 3


@pytest.fixture(autouse=True)
def hang_up() -> Iterator[None]:
    """What `nohup` starts ignores this signal, and so would the run."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_after_the_first_signal_no_request_leaves_and_nothing_is_asked_twice(
    tmp_path: Path, number: int
) -> None:
    """At 76 of 240 requests, Ctrl-C went on to send all 240; a scheduler's SIGTERM lost what was on
    its way."""
    with chat_server(None, "--delay", "0.4") as server:
        run = [
            "run",
            write_study(tmp_path, server.url, more=VARIANTS),
            "--out",
            tmp_path,
            "--workers",
            4,
        ]
        with when(lambda: server.stats["requests"] >= 4, send(number)):
            result = looktwice(*run)
        assert (server.stats["requests"], result.exit_code) == (4, 130), result.output
        assert "asking no more; what is on its way ends and is kept" in result.output
        assert len(RunFolder(tmp_path / "study").records()) == 4
        if number == signal.SIGINT:
            assert looktwice(*run, "--workers", 16).exit_code == 0
            assert (
                server.stats["requests"]
                == len(RunFolder(tmp_path / "study").records())
                == QUESTIONS
            )


def test_a_sample_between_two_calls_pays_none_of_them_twice(tmp_path: Path) -> None:
    """It sends no second request, so it has no record yet; its first reply is kept all the same."""
    with chat_server(None, "--delay", "0.4") as server:
        describe = "stages.ask={use: prompting.turns.CaptionThenAnswer}"
        run = [
            "run",
            write_study(tmp_path, server.url),
            describe,
            "--out",
            tmp_path,
            "--workers",
            4,
        ]
        with when(lambda: server.stats["requests"] >= 4, send(signal.SIGINT)):
            result = looktwice(*run)
        begun = server.stats["requests"]
        assert (begun, result.exit_code) == (4, 130), result.output
        assert "accuracy" not in result.output, "nothing was answered, so there is no table"
        assert looktwice(*run).exit_code == 0
        calls = sum(
            len(record.calls) for record in RunFolder(tmp_path / "study").records().values()
        )
        assert server.stats["requests"] == calls == 16


def test_the_second_interrupt_ends_what_is_on_its_way(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "20") as server:
        config, start = write_study(tmp_path, server.url), time.monotonic()

        def twice() -> None:
            send(signal.SIGINT)()
            time.sleep(0.8)
            send(signal.SIGINT)()

        with when(lambda: server.stats["requests"] >= 2, twice):
            result = looktwice("run", config, "--out", tmp_path, "--workers", 2)
        assert result.exit_code == 130 and "stopping now" in result.output
        assert time.monotonic() - start < 18


def test_two_signals_that_come_together_are_one(tmp_path: Path) -> None:
    """`timeout` and schedulers send one to the process and one to its group; the second gave up
    what was paid."""
    with chat_server(None, "--delay", "0.4") as server:

        def together() -> None:
            send(signal.SIGTERM)()
            time.sleep(0.01)
            send(signal.SIGTERM)()

        with when(lambda: server.stats["requests"] >= 2, together):
            result = looktwice(
                "run", write_study(tmp_path, server.url), "--out", tmp_path, "--workers", 2
            )
        assert result.exit_code == 130 and "stopping now" not in result.output, result.output
        assert len(RunFolder(tmp_path / "study").records()) == 2


def test_what_waits_to_ask_again_is_given_up_at_once(tmp_path: Path) -> None:
    """Ctrl-C sat through retries and rate limits, up to a minute each."""
    with chat_server(None, "--fail", "503=1", "--retry-after", "60") as server:
        config = write_study(tmp_path, server.url)
        start = time.monotonic()
        with when(lambda: server.stats["requests"] >= 1, send(signal.SIGINT)):
            assert looktwice("run", config, "--out", tmp_path, "--workers", 1).exit_code == 130
        assert time.monotonic() - start < 30
        assert server.stats["requests"] == 1


def test_a_request_that_is_being_made_ready_does_not_leave_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While pictures are encoded the run may be stopped."""
    stop = threading.Event()

    def body(*given: object) -> dict[str, object]:
        stop.set()
        return {}

    monkeypatch.setattr(ChatAPI, "body", body)
    with chat_server() as server:
        model = Limited(ChatAPI("m", server.url), stop=stop)
        with pytest.raises(Stopped):
            model((Message("user", ("a",)),))
        assert server.stats["requests"] == 0


@dataclass(frozen=True)
class Noted:
    """A stage after the reply, without which there would be no record of it."""

    def __call__(self, state: State, model: Model) -> State:
        return state.with_notes("seen")


@dataclass(frozen=True)
class Twice:
    """Asks two questions."""

    def __call__(self, state: State, model: Model) -> State:
        return Ask()(Ask()(state, model), model)


@pytest.mark.parametrize(("stage", "kept"), [(Ask(), 2), (Twice(), 0)])
def test_a_model_in_this_process_starts_nothing_either(
    tmp_path: Path, stage: Ask | Twice, kept: int
) -> None:
    """Of an answered sample the stages that are left still run, so that its reply becomes a
    record."""

    def answer(messages: object) -> str:
        run.progress.drain.set()
        return "(A)"

    model, task = Scripted(answer), Photos("jigsaw", 3)
    stages = [{"ask": stage, "then": Noted()}, {"ask": stage, "then": Noted(), "too": Noted()}]
    arms = [
        Arm(str(len(each)), {}, "t", task, model, each, Ask(), 1, 0, False, "", "")
        for each in stages
    ]
    run = Run(Plan("study", tuple(map(with_id, arms))), tmp_path / "run", RunOptions(workers=1))
    assert run().stopped
    assert (len(model.asked), len(RunFolder(tmp_path / "run").records())) == (1, kept)


def test_the_first_record_that_no_answer_can_come_of_stops_the_run(tmp_path: Path) -> None:
    """A stage of one's own that neither asks nor answers gave a table of 0.0 and p = 0.0010."""
    stages = {"look": Noted()}
    with pytest.raises(
        RunError, match=r"mute\.stages: sample jigsaw_000\d: no answer can come of it.*abstain"
    ):
        evaluate(
            Photos("jigsaw", n=30),
            {"chance": Chance(), "mute": Pipeline(stages)},
            out=tmp_path / "run",
            workers=1,
        )
    assert len(RunFolder(tmp_path / "run").records()) < 30
