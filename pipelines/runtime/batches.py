"""Dynamic batching: one worker thread per network takes all queued requests, without a batching
delay."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from looktwice.pipelines.state import collect_remarks, remark

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class _Request(Generic[Item, Found]):
    """A queued item, what it is like, and the future of its result and the remarks on it."""

    item: Item
    kind: Hashable
    result: Future[tuple[Found, list[str]]] = field(default_factory=Future)


class Batcher(Generic[Item, Found]):
    """Gathers the items of many threads into batches for `forward`, which gives one result for each
    item, in order.

    When its worker thread is idle it takes the queued items, the oldest first, up to `batch` items
    of equal `like` (such as the image's size); few callers mean small batches and no delay. If a
    batch runs out of memory, the batch size is halved for good and each result carries a remark
    that says so; if it fails otherwise, its items are run again one by one, so that only the faulty
    ones fail.
    """

    def __init__(
        self,
        forward: Callable[[Sequence[Item]], Sequence[Found]],
        batch: int,
        like: Callable[[Item], Hashable] = lambda item: None,
        name: str = "batches",
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch is 1 or more, found {batch}")
        self.forward, self.like, self.name = forward, like, name
        self.max_batch, self.remarks = batch, ""
        self.queue: list[_Request[Item, Found]] = []
        self.changed = threading.Condition()
        self.worker: threading.Thread | None = None

    def __call__(self, item: Item) -> Found:
        """The result for one item; waits for it. Raises what `forward` raised for it."""
        return self.many([item])[0]

    def many(self, items: Sequence[Item]) -> list[Found]:
        """The results for several items, in their order. Raises what `forward` or `like` raised for
        one."""
        requests = [_Request[Item, Found](item, self.like(item)) for item in items]
        with self.changed:
            if self.worker is None:
                worker = threading.Thread(
                    target=self._work, name=f"looktwice-{self.name}", daemon=True
                )
                worker.start()  # where it cannot, nobody is to wait for it
                self.worker = worker
            self.queue += requests
            self.changed.notify()
        results = []
        for request in requests:
            result, remarks = request.result.result()
            for sentence in remarks:
                remark(sentence)
            results.append(result)
        return results

    def close(self) -> None:
        """Let the worker finish the queued items and end; a later item starts another."""
        with self.changed:
            worker, self.worker = self.worker, None
            self.changed.notify_all()
        if worker is not None and worker is not threading.current_thread():
            worker.join()

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self.changed:
                while not self.queue and self.worker is me:
                    self.changed.wait()
                batch = self._next()
            if not batch:
                return
            self._serve(batch)

    def _next(self) -> list[_Request[Item, Found]]:
        """The oldest item and those behind it that are like it, taken out of the queue."""
        chosen: list[_Request[Item, Found]] = []
        others: list[_Request[Item, Found]] = []
        for request in self.queue:
            alike = request.kind == self.queue[0].kind and len(chosen) < self.max_batch
            (chosen if alike else others).append(request)
        self.queue = others
        return chosen

    def _serve(self, batch: list[_Request[Item, Found]]) -> None:
        """Run a batch and hand out its results; every item gets a result or an exception."""
        try:
            with collect_remarks() as remarks:
                results = self.forward([request.item for request in batch])
            if len(results) != len(batch):
                raise RuntimeError(
                    f"{self.name} gave {len(results)} results for {len(batch)} items"
                )
        except BaseException as exc:
            trouble = exc.with_traceback(None)  # its frames would hold the tensors
        else:
            remarks += [self.remarks] if self.remarks else []
            for request, result in zip(batch, results, strict=True):
                request.result.set_result((result, remarks))
            return
        self._retry(batch, trouble)

    def _retry(self, batch: list[_Request[Item, Found]], exc: BaseException) -> None:
        if len(batch) == 1:
            batch[0].result.set_exception(exc)
            return
        size = 1
        if out_of_memory(exc):
            size = self.max_batch = max(1, len(batch) // 2)
            self.remarks = (
                f"out of memory with {len(batch)} at once: {self.name} goes on with {size}"
            )
            free_memory()
        for start in range(0, len(batch), size):
            self._serve(batch[start : start + size])


def out_of_memory(exc: BaseException) -> bool:
    """Whether an exception says that memory ran out, on the accelerator or on the host."""
    return isinstance(exc, MemoryError) or "out of memory" in str(exc).lower()


def free_memory() -> None:
    """Give back to the accelerator what torch holds and nothing uses."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
