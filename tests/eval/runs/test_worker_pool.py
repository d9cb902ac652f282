"""The worker threads of a run: how many work, who replaces sleeping ones, and what ends them."""

import threading
from collections.abc import Iterator

import pytest

from looktwice.eval.runs.worker_pool import SampleTask, WorkerPool


class Watched:
    """Samples of one part each; counts the maximum worked on at the same time."""

    def __init__(self, workers: int, count: int, sleepers: int = 0) -> None:
        self.errors: list[BaseException] = []
        self.pool = WorkerPool(workers, self.errors.append)
        self.count, self.sleepers = count, sleepers
        self.begun: list[int] = []
        self.at_work = self.most = 0
        self.lock, self.woken = threading.Lock(), threading.Event()

    def run(self) -> "Watched":
        self.pool.run(self.samples(), self.woken.set)
        return self

    def samples(self) -> Iterator[SampleTask]:
        for number in range(self.count):
            yield lambda number=number: self.work(number)  # type: ignore[misc]

    def work(self, number: int) -> bool:
        with self.pool.turns:
            self.note(1, number)
            if number < self.sleepers:
                self.note(-1)
                self.pool.release()
                assert self.woken.wait(20)
                self.pool.acquire()
                self.note(1)
            elif number == self.count - 1:
                self.woken.set()
            self.note(-1)
        return True

    def note(self, more: int, number: int | None = None) -> None:
        with self.lock:
            self.begun += [] if number is None else [number]
            self.at_work += more
            self.most = max(self.most, self.at_work)


@pytest.mark.parametrize("workers", [1, 3])
def test_concurrency_is_bounded_and_each_sample_is_taken_once(workers: int) -> None:
    run = Watched(workers, 200).run()
    assert sorted(run.begun) == [*range(200)] and run.most <= workers and not run.errors
    assert run.begun == [*range(200)] or workers > 1


def test_sleeping_workers_are_replaced_by_others() -> None:
    """Three sleep until the last sample starts, which only other workers can start."""
    run = Watched(3, 60, sleepers=3).run()
    assert sorted(run.begun) == [*range(60)] and run.most <= 3
    assert run.pool.started_threads == 0 and run.pool.sleeping_threads == 0


def test_other_workers_take_parts_of_a_sample_and_its_last_part_takes_the_next() -> None:
    pool, ended = WorkerPool(1, lambda exc: None), list[str]()

    def samples() -> Iterator[SampleTask]:
        for name in ("a", "b"):

            def begin(name: str = name) -> bool:
                pool.submit(lambda: not ended.append(f"{name} second"))  # type: ignore[func-returns-value]
                ended.append(f"{name} first")
                return False

            yield begin

    pool.run(samples(), lambda: None)
    assert ended == ["a first", "a second", "b first", "b second"]


def test_an_error_while_samples_are_made_is_reported_and_ends_the_run() -> None:
    told: list[BaseException] = []

    def samples() -> Iterator[SampleTask]:
        yield lambda: True
        raise ValueError("line 2 is no question")

    WorkerPool(4, told.append).run(samples(), lambda: None)
    assert [str(exc) for exc in told] == ["line 2 is no question"]


def test_an_interrupt_waits_for_work_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    run, real = Watched(2, 2, sleepers=2), WorkerPool._wait
    waits: list[str] = []

    def wait(pool: WorkerPool) -> None:
        waits.append("interrupted" if run.woken.is_set() else "")
        if len(waits) == 1:
            raise KeyboardInterrupt
        real(pool)

    monkeypatch.setattr(WorkerPool, "_wait", wait)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert (
        waits == ["", "interrupted"]
        and sorted(run.begun) == [0, 1]
        and run.pool.started_threads == 0
    )
