"""Retries, rate limits, counting, the order of wrappers, and recorded replies as models."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.recorded.replay import RecordedReplies, digest_request
from looktwice.pipelines import Message, Model, Reply
from looktwice.pipelines.model import (
    CallOptions,
    Messages,
    ModelError,
    Stopped,
    Usage,
    make_message_json,
)
from looktwice.pipelines.models import ChatAPI, Replay, Scripted, limits
from looktwice.pipelines.models.cache import Cached, Store
from looktwice.pipelines.models.limits import SERVERS, Budget, Limited, Pace
from looktwice.pipelines.models.wrappers import Metered, Retried, UsageCount, wrap_model
from looktwice.pipelines.pipeline import RecordingModel
from tests.chat_server import chat_server
from tests.counted_work import FakeTime

HELLO = (Message("user", ("hello",)),)
BUSY = ModelError("busy", status=503, retryable=True)


@dataclass
class Flaky:
    """Fails with the given errors in turn, then answers; counts calls and their concurrency."""

    errors: list[ModelError] = field(default_factory=list)
    work: Callable[[], object] = lambda: None
    identity: str = "flaky"
    asked: int = 0
    inside: int = 0
    most: int = 0
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        with self.lock:
            self.asked, self.inside = self.asked + 1, self.inside + 1
            self.most = max(self.most, self.inside)
            error = self.errors.pop(0) if self.errors else None
        self.work()
        with self.lock:
            self.inside -= 1
        if error is not None:
            raise error
        return Reply("fine", usage=Usage(10, 5, 2, 4), seconds=0.25)

    def close(self) -> None:
        self.closed = True


def calls(model: Model, count: int) -> list[Reply]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: model(HELLO), range(count)))


def number_questions(model: Model, numbers: Sequence[int]) -> list[Reply]:
    """Return the replies to these questions, asked by sixteen threads."""
    asked = [(Message("user", (f"question {number}",)),) for number in numbers]
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(model, asked))


def test_transient_failures_are_retried_with_growing_waits() -> None:
    clock = FakeTime()
    assert Retried(Flaky([BUSY] * 3), initial_delay=2, stop=clock)(HELLO).text == "fine"
    first, second, third = clock.waits
    assert 2 <= first <= 2.5 and 4 <= second <= 5 and 8 <= third <= 10
    with pytest.raises(ZeroDivisionError):
        Retried(Scripted(lambda messages: str(1 / 0)), stop=clock)(HELLO)
    assert len(clock.waits) == 3


LATER = ModelError("later", status=429, retryable=True, retry_after=999.0)


def test_when_it_gives_up() -> None:
    bad = ModelError("bad request", status=400)
    for error, asked, said in ((BUSY, 3, "3 attempts"), (bad, 1, "^bad"), (LATER, 1, "999 s")):
        inner = Flaky([error] * 9)
        with pytest.raises(ModelError, match=said) as caught:
            Retried(inner, attempts=3, initial_delay=0.001)(HELLO)
        assert inner.asked == asked and caught.value.status == error.status


def test_retry_after_delays_only_its_own_request() -> None:
    inner = Flaky([ModelError("slow down", status=429, retryable=True, retry_after=6.0)])
    waits, waiting, over = list[float](), threading.Event(), threading.Event()

    class Wait(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            waiting.set()
            assert over.wait(100)
            return False

    model = Retried(Limited(inner), initial_delay=0.01, stop=Wait())
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(model, HELLO)
        assert waiting.wait(100)
        others = [pool.submit(model, HELLO) for _ in range(3)]
        assert all(each.result().text == "fine" for each in others)
        assert not first.done()
        over.set()
        assert first.result().text == "fine"
    assert len(waits) == 1 and 6 <= waits[0] <= 7.5


@pytest.mark.slow
def test_the_request_rate_adapts_to_the_rate_limit_of_a_server() -> None:
    with chat_server(None, "--rate", "120", "--retry-after", "0.5", "--delay", "0.02") as server:
        replies = number_questions(wrap_model(ChatAPI("m", server.url)), range(300))
        stats = server.stats
    assert len(replies) == stats["replies"] == 300
    assert 300 < stats["requests"] < 1.3 * 300


def test_models_of_one_endpoint_share_their_concurrency_limit_and_others_do_not() -> None:
    first, second = (Limited(ChatAPI(name, "http://127.0.0.1:9/v1")) for name in ("a", "b"))
    assert first.limiter is second.limiter
    assert Limited(ChatAPI("a", "http://127.0.0.1:10/v1")).limiter is not first.limiter
    assert Limited(Flaky()).limiter is not Limited(Flaky()).limiter


def test_in_flight_and_per_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    all_three = threading.Barrier(3)
    inner = Flaky(work=lambda: all_three.wait(100))
    calls(Limited(inner, in_flight=3), 9)
    assert inner.most == 3
    clock = FakeTime()
    clock.replace_in(monkeypatch, limits)
    model = Limited(Flaky(identity="spaced"), per_minute=1200, stop=clock)
    for _ in range(5):
        model(HELLO)
    assert clock.waits == pytest.approx([0.05] * 4)
    with pytest.raises(ValueError, match="in_flight"):
        Limited(inner, in_flight=0)


def waiting_for_a_slot(stop: threading.Event) -> Model:
    inside = threading.Event()

    def hold() -> None:
        inside.set()
        stop.wait(100)

    model = Limited(Flaky(work=hold), in_flight=1, stop=stop)
    threading.Thread(target=model, args=(HELLO,), daemon=True).start()
    assert inside.wait(100)
    return model


def spaced(stop: threading.Event) -> Model:
    model = Limited(Flaky(), per_minute=0.5, stop=stop)
    model(HELLO)
    return model


def paced(stop: threading.Event) -> Model:
    SERVERS.paces["paced"] = Pace(next_due=time.monotonic() + 60)
    return Limited(Flaky(identity="paced"), stop=stop)


def over_budget(stop: threading.Event) -> Model:
    model = Flaky()
    budget = Budget(max_money=1.0, max_cost={model.identity: 0.6})
    budget.reserve(model, stop)
    return Limited(model, stop=stop, budget=budget)


def test_budget_is_reserved_per_model_and_a_free_model_never_waits() -> None:
    costly, cheap, free = (Flaky(identity=name) for name in ("costly", "cheap", "free"))
    prices = {"costly": 0.6, "cheap": 0.1, "free": 0.0}
    budget = Budget(max_money=1.0, compute_cost=lambda model, usage: prices[model.identity])
    stop, never = threading.Event(), threading.Event()
    stop.set()
    for model in (cheap, free):
        budget.reserve(model, never)
        with pytest.raises(Stopped, match="waiting"):
            budget.reserve(model, stop)  # its price is unknown until the first has ended
        budget.settle(model, Usage(1, 1))
    budget.reserve(costly, never)
    for _ in range(5):
        budget.reserve(cheap, never)
        budget.reserve(free, never)
    budget.settle(costly, Usage(1, 1))
    with pytest.raises(Stopped, match="waiting"):
        budget.reserve(costly, stop)
    budget.reserve(free, never)
    assert budget.spent_money == pytest.approx(0.7) and budget.max_cost == prices


WAITS: list[Callable[[threading.Event], Model]] = [
    waiting_for_a_slot,
    spaced,
    paced,
    over_budget,
    lambda stop: Retried(Flaky([BUSY]), initial_delay=60, stop=stop),
]


@pytest.mark.parametrize("make", WAITS)
def test_every_wait_ends_when_the_run_stops(make: Callable[[threading.Event], Model]) -> None:
    stop = threading.Event()
    model = make(stop)
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(Stopped):
        model(HELLO)


def test_paid_and_cached_replies_are_counted_separately(tmp_path: Path) -> None:
    model = Metered(Cached(Flaky([BUSY]), Store(tmp_path)))
    with pytest.raises(ModelError):
        model(HELLO)
    calls(model, 3)
    usage = model.snapshot()
    assert usage.failed_calls == 1
    assert usage.paid_usage == UsageCount(1, 10, 5, 2, 4, 0.25)
    assert usage.cached_usage == UsageCount(2, 20, 10, 4, 8, 0.5)


def test_counts_are_neither_compared_nor_printed() -> None:
    inner = Flaky()
    used, other = Metered(inner), Metered(inner)
    calls(used, 2)
    assert used.snapshot() != other.snapshot()
    assert (used, repr(used)) == (other, repr(other))
    with pytest.raises(TypeError):
        Metered(inner, "place", used.snapshot())  # type: ignore[call-arg]


def test_the_order_of_the_wrappers_and_close(tmp_path: Path) -> None:
    inner, stop = Flaky(), threading.Event()
    model = wrap_model(inner, Store(tmp_path), stop, attempts=2)
    order: list[str] = []
    each: Any = model
    while hasattr(each, "model"):
        order.append(type(each).__name__)
        each = each.model
    assert order == ["Metered", "Cached", "Retried", "Limited"] and each is inner
    assert model.identity == "flaky"
    model.close()
    assert inner.closed and model(HELLO).text == "fine"
    assert not isinstance(wrap_model(Flaky()).model, Cached)
    with pytest.raises(ValueError, match="store"):
        wrap_model(inner, only_cached=True)


@pytest.mark.slow
def test_a_batch_through_an_unreliable_server(tmp_path: Path) -> None:
    flags = "--first 429,500,reset --retry-after 0.2 --fail 500=0.1 --fail reset=0.1"
    with chat_server(tmp_path / "log", *flags.split()) as server:
        model = wrap_model(ChatAPI("m", server.url, in_flight=4), Store(tmp_path))
        replies = number_questions(model, [*range(30), *range(30)])
        stats = server.stats
    usage = model.snapshot()
    assert (usage.paid_usage.calls, usage.cached_usage.calls, usage.failed_calls) == (30, 30, 0)
    assert stats["replies"] == 30 and stats["requests"] > 33 and stats["most_in_flight"] <= 4
    assert [reply.text for reply in replies[:30]] == [reply.text for reply in replies[30:]]


ROWS = [{"idx": "a", "reply": " (A)"}, {"idx": 7, "reply": ""}, {"idx": "n", "reply": None}]


def lines(rows: Sequence[object]) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows) + b"\n\n"


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_recorded_replies_by_sample(tmp_path: Path, name: str) -> None:
    data = lines(ROWS)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    replay, served_by = Replay(tmp_path / name), {"engine": "recorded", "file": name}
    assert RecordingModel(replay, "a")(HELLO) == Reply(" (A)", served_by=served_by)
    assert RecordingModel(replay, "7")(HELLO).text == ""
    for model, draw, said in (
        (RecordingModel(replay, "b"), 0, f"{name} .*'b'; its 3 ids"),
        (RecordingModel(replay, "n"), 0, "line 3: 'reply' of sample 'n'"),
        (RecordingModel(replay, "a"), 1, "draw 1"),
        (replay, 0, "by sample"),
    ):
        with pytest.raises(ModelError, match=said):
            model(HELLO, draw)


def test_the_identity_of_a_recording_is_its_name_and_content(tmp_path: Path) -> None:
    identities = []
    for folder, rows in (("one", ROWS), ("two", ROWS), ("three", ROWS[:2])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "r.jsonl").write_bytes(lines(rows))
        identities.append(Replay(tmp_path / folder / "r.jsonl").identity)
    one, two, three = identities
    assert one == two != three and "one" not in one


def test_unusable_recordings_are_refused(tmp_path: Path) -> None:
    path, torn = tmp_path / "r.jsonl", tmp_path / "torn.jsonl.gz"
    torn.write_bytes(gzip.compress(lines(ROWS))[:-9])
    for data, said in (
        (None, "cannot be read"),
        (lines([*ROWS, {"idx": "a", "reply": "x"}]), "'a' .* line 1 .* 4"),
        (b'{"idx": "a", "reply": ""}\n{"idx', "line 2: not JSON"),
        (b"[1]\n", "line 1: expected an object"),
        (lines([{"idx": "a", "text": ""}]), r"line 1 .*'reply'.*\['idx', 'te"),
    ):
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(ModelError, match=said) as caught:
            Replay(path).for_sample("a")(HELLO)
        assert str(path) in str(caught.value)
    with pytest.raises(ModelError, match="cannot be read"):
        _ = Replay(torn).identity


@pytest.mark.slow
def test_the_published_recordings(shared_data: Path) -> None:
    files = sorted((shared_data / "blink_replies").glob("*.jsonl.gz"))
    ids = [set(Replay(path).recording.replies) for path in files]
    assert len(files) == 8 and all(each == ids[0] for each in ids)
    texts = [text for path in files for _, text in Replay(path).recording.replies.values()]
    assert all(isinstance(text, str) for text in texts)


def test_recorded_requests_are_answered_once_each_and_others_refused() -> None:
    seeded, plain = CallOptions(seed=3), [make_message_json(message) for message in HELLO]
    replies = {
        digest_request(plain, draw, seeded.to_dict()): [Reply(text) for text in texts]
        for draw, texts in enumerate((("one", "two"), ("three",)))
    }
    model = RecordedReplies(replies, "m")
    assert [model(HELLO, draw, seeded).text for draw in (0, 1, 0)] == ["one", "three", "two"]
    assert model.identity == "m"
    for options, said in ((seeded, "2 answers .* 3 times"), (CallOptions(), "0 answers")):
        with pytest.raises(ModelError, match=said):
            model(HELLO, 0, options)


def test_settings_of_wrappers_are_checked() -> None:
    for wrong in ({"in_flight": 0}, {"prices": {"input": 3}}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ChatAPI("m", "http://127.0.0.1:9/v1", **wrong)
