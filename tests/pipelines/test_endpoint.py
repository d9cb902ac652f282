"""Failures of an endpoint: whether they are its own, how they are counted, and when a run stops."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from looktwice.pipelines import Message, Reply
from looktwice.pipelines.model import STOP_EVENT, CallOptions, Messages, ModelError, Stopped
from looktwice.pipelines.models import limits
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.models.limits import Pace, Servers
from looktwice.pipelines.models.stops import EndpointError
from looktwice.pipelines.models.wrappers import (
    MAX_EQUAL_FAILURES,
    EndpointWatch,
    Watched,
    is_endpoint_fault,
    wrap_model,
)
from looktwice.pipelines.pipeline import describe_exception
from tests.counted_work import FakeTime

GONE = ModelError("nobody there", retryable=True, unreached=True)
HELLO = (Message("user", ("hello",)),)


def test_failures_of_the_endpoint_or_of_the_sample() -> None:
    answered = (300, 399, 401, 402, 403, 404, 408, 429, 500, 503)
    errors = [GONE, ModelError("a certificate", unreached=True), ModelError("off", retryable=True)]
    errors += [ModelError("no", status=status) for status in answered]
    assert all(map(is_endpoint_fault, errors))
    errors = [ModelError("no", status=status) for status in (200, 299, 400, 413, 415, 422)]
    assert not any(map(is_endpoint_fault, [ModelError("a picture in a system's turn"), *errors]))


def make_watch(
    times: list[float], monkeypatch: pytest.MonkeyPatch
) -> tuple[EndpointWatch, list[str]]:
    """Return a watch whose clock returns these times, and its reasons for giving up."""
    lines: list[str] = []
    monkeypatch.setattr("time.monotonic", lambda: 1000 + times.pop(0))
    return EndpointWatch(lines.append), lines


@pytest.mark.parametrize(
    ("times", "stops"),
    [([0, 1, 5.1], True), ([0, 1, 4.9], False), ([0, 9], False), ([0, 0, 0, 0, 4.9, 5], True)],
)
def test_three_unreachable_attempts_in_five_seconds_stop(
    times: list[float], stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = len(times)
    watch, lines = make_watch(times, monkeypatch)
    for _ in range(number):
        watch.note_attempt(GONE)
    assert lines == (["nobody there"] if stops else [])


def test_any_response_restarts_the_count_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    between: dict[Callable[[EndpointWatch], object], bool] = {
        lambda w: w.note_reply("m"): False,
        lambda w: w.note_attempt(ModelError("busy", status=503, retryable=True)): False,
        lambda w: w.note_failure("m", ModelError("too large", status=413)): False,
        lambda w: w.note_attempt(ModelError("broke off", retryable=True)): True,
    }
    for happens, stops in between.items():
        with monkeypatch.context() as patch:
            watch, lines = make_watch([0, 1, 6, 8, 11], patch)
            watch.note_attempt(GONE)
            watch.note_attempt(GONE)
            happens(watch)
            for is_last in (False, False, True):
                watch.note_attempt(GONE)
                assert bool(lines) is (stops or is_last)
            assert lines == ["nobody there"]


def fail(watch: EndpointWatch, text: str, model: str = "m") -> EndpointError:
    exc = watch.note_failure(model, ModelError(text, status=404))
    assert isinstance(exc, EndpointError) and exc.status == 404
    assert describe_exception(exc) == f"ModelError: {text}", (
        "as it is called where the sample is blamed"
    )
    return exc


def test_repeated_failures_stop_the_run_and_all_its_calls() -> None:
    lines: list[str] = []
    watch = EndpointWatch(lines.append)
    for number in range(MAX_EQUAL_FAILURES - 1):
        assert fail(watch, f"no model m (request {number}a7)").streak.count == number + 1
    assert not lines
    for model, words in (("m", "no model m (request 9f)"), ("n", "another")):
        with pytest.raises(Stopped):
            watch.note_failure(model, ModelError(words, status=404))
    with pytest.raises(Stopped):
        watch.probe(CountingModel(), threading.Event())
    assert lines == ["no model m (request 9f)"]


def test_when_a_failure_streak_ends_and_which_calls_share_it() -> None:
    watch = EndpointWatch(lambda said: None)
    first = fail(watch, "no model m").streak
    assert fail(watch, "no model n", "n").streak is not first and not first.ended
    assert (first.before_any_reply, first.message) == (True, "no model m")
    other = fail(watch, "no access to m").streak
    assert first.ended and not other.ended
    watch.note_reply("n")
    assert not other.ended
    watch.note_reply("m")
    assert other.ended
    later = fail(watch, "no model m").streak
    assert not later.before_any_reply
    assert not isinstance(watch.note_failure("m", ModelError("cut off", status=400)), EndpointError)
    assert later.ended


@dataclass
class CountingModel:
    """A model that counts its probes and calls."""

    identity: str = "asked"
    dead: bool = False
    probes: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)

    def probe(self) -> None:
        self.probes.append(1)
        if self.dead:
            raise GONE

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        self.calls.append(1)
        return Reply("(A)")


def test_the_endpoint_is_probed_once_and_not_for_cached_replies(tmp_path: Path) -> None:
    lines, stop = list[str](), threading.Event()
    model, watch = CountingModel(), EndpointWatch(lines.append)
    with_cache = wrap_model(model, Store(tmp_path), watch=watch)
    assert [with_cache(HELLO, draw).text for draw in (0, 0, 1)] == ["(A)"] * 3
    assert (len(model.probes), len(model.calls)) == (1, 2)
    dead = CountingModel(dead=True)
    assert wrap_model(dead, Store(tmp_path), watch=EndpointWatch(lines.append))(HELLO).cached
    assert not dead.probes and not lines
    with pytest.raises(Stopped):
        wrap_model(dead, None, watch=EndpointWatch(lines.append))(HELLO)
    assert (len(dead.probes), dead.calls, lines) == (1, [], ["nobody there"])
    stop.set()  # no probe is sent any more
    with pytest.raises(Stopped):
        Watched(model, model, EndpointWatch(lines.append), stop)(HELLO)
    assert len(model.probes) == 1


def test_identical_refusals_of_the_first_calls_stop_the_run() -> None:
    lines = list[str]()
    watch = EndpointWatch(lines.append)
    refused = ModelError("Unknown parameter: 'max_tokens'", status=400)
    rows = [watch.note_failure("m", refused) for _ in range(MAX_EQUAL_FAILURES - 1)]
    assert not lines and not any(
        row.streak.before_any_reply for row in rows if isinstance(row, EndpointError)
    )
    with pytest.raises(Stopped):
        watch.note_failure("m", refused)
    assert lines == [str(refused)]


@pytest.mark.parametrize("is_answered", [True, False])
def test_occasional_refusals_are_failures_of_their_samples(is_answered: bool) -> None:
    lines: list[str] = []
    watch = EndpointWatch(lines.append)
    for _ in range(3 * MAX_EQUAL_FAILURES):
        watch.note_failure("m", ModelError("too many pictures", status=400))
        if is_answered:
            watch.note_reply("m")
        else:
            watch.note_failure("m", ModelError("a picture is too large", status=400))
    assert not lines


def test_refusals_are_counted_by_message() -> None:
    watch = EndpointWatch(lambda said: None)
    assert watch.describe_refusals("h:1/v1", stopped=False) == ""
    for status, count in ((429, 17), (500, 3), (503, 1), (408, 2)):
        for _ in range(count):
            watch.note_attempt(ModelError("busy", status=status, retryable=True))
    start = watch.describe_refusals("h:1/v1", stopped=True)
    assert re.findall(r"\d+ times?|\(\d+\)|h:1\S+", start) == [
        *("h:1/v1", "17 times", "(429)", "3 times", "(500)", "1 time", "(503)")
    ]
    assert watch.describe_refusals("h:1/v1", stopped=False).startswith(f"{start}; all ")
    watch.note_failure("m", ModelError("busy", status=503, retryable=True))
    assert watch.describe_refusals("h:1/v1", stopped=False).startswith(f"{start}; 1 request ")


def test_the_concurrency_adapts_to_a_server_that_refuses_many() -> None:
    pace, now = Pace(), 0.0
    for number in range(200):  # 100 a second, every second one refused
        now = number / 100
        pace.record(number % 2 == 0, now)
    slow = pace.rate
    assert slow == pytest.approx(50, rel=0.05)
    assert pace.seconds_left(now) == 0, "this one leaves"
    assert pace.seconds_left(now) == pace.seconds_left(now) == pytest.approx(1 / slow)
    for number in range(400):
        pace.record(False, now + number / 100)
    assert slow * 1.2 < pace.rate < slow * 1.5


def test_a_few_refusals_do_not_slow_requests_and_are_forgotten() -> None:
    pace, slow = Pace(), Pace(rate=1.0, last_answer=5.0)
    for number in range(1000):
        pace.record(number % 25 == 0, number / 100)
    slow.record(False, 100.0)
    # after a minute without requests, nothing is known about a server
    assert pace.rate == slow.rate == math.inf


def test_the_concurrency_rises_again_after_recovery_even_for_a_slow_server() -> None:
    pace, now = Pace(rate=0.68, last_answer=100.0, window_start=100.0), 100.0
    while now < 280:
        now += 1 / pace.rate
        pace.record(False, now)
    assert pace.rate > 5


def test_a_refusing_server_of_a_fleet_is_bypassed() -> None:
    servers, asked = Servers(), list[str]()
    servers.paces["full"] = Pace(rate=0.5, next_due=time.monotonic() + 60)
    for _ in range(5):
        servers.ask(("full", "free"), asked.append)
    assert asked == ["free"] * 5


def test_waiting_ends_when_the_rate_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, clock = Servers(), FakeTime()
    clock.replace_in(monkeypatch, limits)
    pace = servers.paces["slow"] = Pace(rate=1 / 30, next_due=0.3)
    waits = [servers._choose_server(["slow"])[1] for _ in range(10)]
    assert waits == [0.3] * 10, "nobody who waits has a place yet"
    pace.rate, clock.now = 100.0, 0.3
    reset = STOP_EVENT.set(clock)
    left = [servers.ask(("slow",), lambda url: clock.now) for _ in range(10)]
    STOP_EVENT.reset(reset)
    assert left == pytest.approx([0.3 + number / 100 for number in range(10)])


def test_a_fleet_shares_requests_evenly() -> None:
    """Each question starts while the earlier ones are in flight."""
    servers, asked = Servers(), list[str]()

    def ask(url: str) -> None:
        asked.append(url)
        if len(asked) < 12:
            servers.ask(("a", "b", "c"), ask)

    servers.ask(("a", "b", "c"), ask)
    assert asked == ["a", "b", "c"] * 4
