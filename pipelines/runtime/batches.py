"""A micro-batcher: one thread in front of a network, which takes what waits and never waits for more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from looktwice.pipelines.state import collect_remarks, remark

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class _Waiting(Generic[Item, Found]):
    """An item, and where its result and the remarks on it are to go."""

    item: Item
    result: Future[tuple[Found, list[str]]] = field(default_factory=Future)


class Batcher(Generic[Item, Found]):
    """Gathers the items of many threads into batches for `forward`, which gives one result for each item, in order.

    The owner thread has no deadline: when it is idle it takes what waits, the oldest first, up to `batch` items that
    are `like` one another (such as of one size); few callers mean small batches and never a stall. Where a batch runs
    out of memory, its size is halved for good and each result carries a remark that says so; where it fails
    otherwise, its items are run again one by one, so that only those fail which fail by themselves.
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
        self.room, self.remarks = batch, ""
        self.queue: list[_Waiting[Item, Found]] = []
        self.changed = threading.Condition()
        self.owner: threading.Thread | None = None

    def __call__(self, item: Item) -> Found:
        """The result for one item; waits for it. Raises what `forward` raised for it."""
        return self.many([item])[0]

    def many(self, items: Sequence[Item]) -> list[Found]:
        """The results for several items, in their order."""
        waiting = [_Waiting[Item, Found](item) for item in items]
        with self.changed:
            self.queue += waiting
            if self.owner is None:
                self.owner = threading.Thread(target=self._own, name=f"looktwice-{self.name}", daemon=True)
                self.owner.start()
            self.changed.notify()
        found = []
        for each in waiting:
            result, remarks = each.result.result()
            for sentence in remarks:
                remark(sentence)
            found.append(result)
        return found

    def close(self) -> None:
        """Let the owner finish what waits and end; a later item starts another."""
        with self.changed:
            owner, self.owner = self.owner, None
            self.changed.notify_all()
        if owner is not None and owner is not threading.current_thread():
            owner.join()

    def _own(self) -> None:
        me = threading.current_thread()
        while True:
            with self.changed:
                while not self.queue and self.owner is me:
                    self.changed.wait()
                batch = self._next()
            if not batch:
                return
            self._serve(batch)

    def _next(self) -> list[_Waiting[Item, Found]]:
        """The oldest item and those behind it that are like it, taken out of the queue."""
        if not self.queue:
            return []
        kind = self.like(self.queue[0].item)
        chosen = [each for each in self.queue if self.like(each.item) == kind][: self.room]
        taken = {id(each) for each in chosen}
        self.queue = [each for each in self.queue if id(each) not in taken]
        return chosen

    def _serve(self, batch: list[_Waiting[Item, Found]]) -> None:
        """Run a batch and hand out its results; whatever happens, every item gets a result or an exception."""
        try:
            with collect_remarks() as heard:
                found = self.forward([each.item for each in batch])
            if len(found) != len(batch):
                raise RuntimeError(f"{self.name} gave {len(found)} results for {len(batch)} items")
        except BaseException as exc:
            trouble: BaseException | None = exc.with_traceback(None)  # its frames would hold the tensors
        else:
            trouble = None
        if trouble is not None:
            self._again(batch, trouble)
            return
        heard = [*heard, self.remarks] if self.remarks else heard
        for each, result in zip(batch, found, strict=True):
            each.result.set_result((result, heard))

    def _again(self, batch: list[_Waiting[Item, Found]], exc: BaseException) -> None:
        if len(batch) == 1:
            batch[0].result.set_exception(exc)
            return
        size = 1
        if out_of_memory(exc):
            size = self.room = max(1, len(batch) // 2)
            self.remarks = f"out of memory with {len(batch)} at once: {self.name} goes on with {size}"
            _free()
        for start in range(0, len(batch), size):
            self._serve(batch[start : start + size])


def out_of_memory(exc: BaseException) -> bool:
    """Whether an exception says that memory ran out, on the accelerator or beside it."""
    return isinstance(exc, MemoryError) or "out of memory" in str(exc).lower()


def _free() -> None:
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
