"""What tasks on several machines share: the concurrency limit of an endpoint, and networks."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from looktwice.eval.records import Record
from looktwice.eval.records.records import SampleRow
from looktwice.pipelines.models import limits
from looktwice.pipelines.models.limits import Limited, LimitKey, Load, RateLimiter, list_limiters
from looktwice.pipelines.models.scripted import Scripted
from looktwice.pipelines.runtime.stores import get_current_store, use_result_store
from tests.counted_work import FakeTime
from tests.optional import extension
from tests.tables import table

ray_executor = extension("executors.ray_executor")
cluster = extension("executors.cluster")

KEY = LimitKey("http://h/v1", 10, None)


def test_a_network_host_stores_results_as_long_as_it_lives(tmp_path: Path) -> None:
    with use_result_store(None):
        host = cluster.NetworkHost((), str(tmp_path))
        assert (store := get_current_store()) is not None
        assert store.folder == tmp_path / "findings"
        del host


@table
def test_slots_are_shared_fairly(wanted: dict[str, int], most: int, shares: object) -> None:
    assert cluster.divide_slots(wanted, most) == shares


def test_a_single_task_uses_all_slots_and_releases_them_gradually() -> None:
    coordinator = cluster.LimitCoordinator(max_tasks=2)
    for name, used, waiting, places in (
        ("a", 0, 0, 5),  # half of the slots at first, as another task may come
        ("a", 5, 30, 10),
        ("b", 0, 30, 0),  # all slots are in use
        ("a", 10, 30, 5),
        ("b", 0, 30, 0),  # requests in flight end first
        ("a", 6, 30, 5),
        ("b", 0, 30, 4),
    ):
        assert coordinator.ask(name, {KEY: Load(used, waiting)}) == (False, {KEY: places})
    coordinator.leave("a")
    assert coordinator.ask("b", {KEY: Load(4, 30)}) == (False, {KEY: 10})
    coordinator.request_stop()
    assert coordinator.ask("b", {})[0]


def test_slots_of_a_silent_task_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeTime()
    clock.replace_in(monkeypatch, import_module("looktwice.extras.executors.cluster"))
    coordinator = cluster.LimitCoordinator(max_tasks=1)
    assert coordinator.ask("a", {KEY: Load(0, 50)})[1] == {KEY: 10}
    for now, places in (
        (cluster.MAX_SILENCE_SECONDS - 1, 0),
        (cluster.MAX_SILENCE_SECONDS + 1, 10),
    ):
        clock.now = now
        assert coordinator.ask("b", {KEY: Load(0, 50)})[1] == {KEY: places}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 12), st.integers(0, 20)), max_size=60
    )
)
@example([("a", 0, 20), ("a", 10, 20), ("a", 0, 0), ("b", 0, 20)])
def test_the_tasks_together_never_exceed_the_limit(steps: list[tuple[str, int, int]]) -> None:
    coordinator, slots, used = (
        cluster.LimitCoordinator(max_tasks=3),
        dict.fromkeys("abcd", 0),
        dict.fromkeys("abcd", 0),
    )
    for task, goes_to, waiting in steps:
        # starts at most what is allowed, ends any number
        used[task] = min(goes_to, max(used[task], slots[task]))
        before, slots[task] = (
            slots[task],
            coordinator.ask(task, {KEY: Load(used[task], waiting)})[1][KEY],
        )
        used[task] = max(used[task], before)  # started before it got the answer
        for name in used:  # in the worst case all start as many as allowed
            used[name] = max(used[name], slots[name])
        assert sum(used.values()) <= KEY.in_flight, (used, slots)


def test_a_limiter_uses_only_its_share() -> None:
    model = Scripted("A")
    object.__setattr__(model, "endpoint", KEY.endpoint)
    limited, drain, said = (
        Limited(model, KEY.in_flight),
        threading.Event(),
        list[Mapping[LimitKey, Load]](),
    )

    def ask(loads: Mapping[LimitKey, Load]) -> tuple[bool, dict[LimitKey, int]]:
        said.append(loads)
        return False, {KEY: 1}

    cluster.apply_limits(ask, drain)
    assert said[0][KEY] == Load(0, 0) and not drain.is_set()
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with limited.limiter.enter(drain):
            inside.set()
            leave.wait(10)

    first, second = threading.Thread(target=hold), threading.Thread(target=hold)
    first.start()
    assert inside.wait(10)
    inside.clear()
    second.start()
    assert not inside.wait(0.3), "one place, and it is taken"
    assert list_limiters()[KEY].load == Load(1, 1)
    limited.limiter.allot(2)
    assert inside.wait(10)
    leave.set()
    first.join()
    second.join()
    assert list_limiters()[KEY].load == Load(0, 0)
    cluster.apply_limits(lambda loads: (True, {}), drain)
    assert drain.is_set()


def test_requests_that_reuse_a_picture_follow_the_one_that_loads_it() -> None:
    found, reading = queue.Queue[Any](), threading.Event()

    def get(sha: str) -> bytes:
        reading.set()
        time.sleep(0.3)
        return b"pixels"

    sink, row = (
        ray_executor.QueueWriter(SimpleNamespace(get=get), found),
        SampleRow("t", "sha", "A", {}),
    )
    for draw in range(2):
        record = Record("p", "s", "sha", draw, pictures=("one",))
        threading.Thread(target=sink.send, args=(row, record, "", {})).start()
        assert reading.wait(10)
    assert [dict(found.get(timeout=10).blobs) for _ in range(2)] == [{"one": b"pixels"}, {}]


def test_half_the_slots_have_half_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTime().replace_in(monkeypatch, limits)
    limiter, stop = RateLimiter(10, 600.0), threading.Event()
    limiter.allot(5)
    with limiter.enter(stop):
        assert limiter._seconds_left() == pytest.approx(0.2)
