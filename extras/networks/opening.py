"""The opening of networks and their batches: a process opens each network once, even if several
threads need it, and the runner closes it. One worker thread per network runs the queued requests in
batches, without waiting for more."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from looktwice.pipelines.runtime.process import CLEANUPS
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.state import collect_remarks, remark

RETRY_SECONDS = 60.0  # seconds before a failed download is retried

# transformers is not thread-safe: a second thread may find it half imported
OPENING_LOCK = threading.RLock()

Dtype = Literal["auto", "float32", "float16", "bfloat16"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Resource = TypeVar("Resource")
Item = TypeVar("Item")
Output = TypeVar("Output")


class FetchError(WeightsError):
    """Raised if weights could not be downloaded; for a minute, the same error is raised again
    without a retry."""


@dataclass(frozen=True)
class Place:
    """The `device` and `dtype` of a network, as torch names them."""

    device: str
    dtype: str

    @classmethod
    def resolve(cls, device: str, dtype: str, half: str = "float16", extra: str = "torch") -> Place:
        """Resolve "auto": the device is CUDA, else MPS, else CPU; the precision is `half` on CUDA,
        else float32. `extra` is the looktwice extra that installs torch and the other required
        packages.

        Raises WeightsError if this machine lacks the device.
        """
        torch = import_torch(extra)
        there = {
            "cpu": True,
            "cuda": torch.cuda.is_available(),
            "mps": torch.backends.mps.is_available(),
        }
        if device == "auto":
            device = next(name for name in ("cuda", "mps", "cpu") if there[name])
        if not there[device]:
            available = ", ".join(name for name, is_there in there.items() if is_there)
            raise WeightsError(
                f"device {device!r} was requested, but torch finds only {available} here; set"
                " device: auto"
            )
        if dtype == "auto":
            dtype = half if device == "cuda" else "float32"
        return cls(device, dtype)

    @property
    def torch_dtype(self) -> Any:
        """The torch dtype object."""
        return getattr(import_torch(), self.dtype)


RemoteCall = Callable[..., Any]
"""A function that calls a method of a network object in another process, and returns the result."""

_remote_call: RemoteCall | None = None


def use_remote_networks(call: RemoteCall | None) -> None:
    """Run the networks of this process in another process from now on, through `call`; with None,
    run them here again."""
    global _remote_call
    _remote_call = call


def get_remote_call() -> RemoteCall | None:
    """Return the function that calls networks in another process, or None if they run here."""
    return _remote_call


_lock = threading.Lock()
_opening_locks: dict[Hashable, threading.Lock] = {}
_open_resources: dict[Hashable, Any] = {}
_download_failures: dict[Hashable, tuple[float, FetchError]] = {}


def open_shared(key: Hashable, open_: Callable[[], Resource]) -> Resource:
    """Return the resource that this process shares under `key`: the first thread that needs it
    opens it while the others wait. Raises WeightsError.

    A failure is forgotten, since the file may be fixed at any time, but a failed download is
    remembered for `RETRY_SECONDS`, so that not every sample of a run waits for the same timeout.
    """
    with _lock:
        turn = _opening_locks.setdefault(key, threading.Lock())
    with turn:
        since, failure = _download_failures.get(key, (0.0, None))
        if failure is not None and time.monotonic() - since < RETRY_SECONDS:
            raise FetchError(str(failure))
        if key not in _open_resources:
            try:
                _open_resources[key] = open_()
            except FetchError as exc:
                _download_failures[key] = time.monotonic(), exc
                raise
        resource: Resource = _open_resources[key]
        return resource


def close_networks() -> None:
    """Free the memory of every network, the last opened one first; a later use opens a network
    again."""
    with _lock:
        resources = list(_open_resources.values())
        for kept in (_open_resources, _download_failures, _opening_locks):
            kept.clear()
    if resources:
        while resources:
            getattr(resources.pop(), "close", lambda: None)()
        gc.collect()
        free_memory()


CLEANUPS.append(close_networks)


def import_torch(extra: str = "torch") -> Any:
    """Return the torch module. If torch is missing, raises WeightsError, which names the `extra` to
    install."""
    return import_extra("torch", extra)


def import_transformers() -> Any:
    """Return the transformers module. If it is missing, raises WeightsError with the command to
    type."""
    transformers = import_extra("transformers", "hf")
    # its log lines about retries would hide the error at their end
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    return transformers


def import_extra(name: str, extra: str) -> Any:
    """Return a module that a looktwice extra installs, with its log output silenced. If the module
    or torch is missing, raises WeightsError with the command to type."""
    if name != "torch":
        import_torch(extra)
    try:
        with OPENING_LOCK:
            module = import_module(name)
    except ImportError as exc:
        from looktwice.pipelines.runtime.install import format_install

        raise WeightsError(f"{name} is not installed; type: {format_install(extra)}") from exc
    if name != "torch":
        module.utils.logging.set_verbosity_error()
        module.utils.logging.disable_progress_bar()
    return module


def find_weights_file(path: str | Path) -> Path:
    """Return the weights file that a setting names. Raises WeightsError if it does not exist."""
    place = Path(path).expanduser()
    if not place.is_file():
        raise WeightsError(f"there is no weights file {place}; set model: to an existing file")
    return place


def get_first_line(exc: BaseException) -> str:
    """Return the first line of a library's message, at most 300 characters."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return (lines[0] if lines else type(exc).__name__)[:300]


@dataclass(frozen=True, eq=False)
class _Request(Generic[Item, Output]):
    """A queued item, its batch key, and a future that receives its result and remarks."""

    item: Item
    kind: Hashable
    result: Future[tuple[Output, list[str]]] = field(default_factory=Future)


class Batcher(Generic[Item, Output]):
    """Gathers the items of many threads into batches for `forward`, which returns one result per
    item, in order.

    When its worker thread is idle, it takes the queued items, oldest first, up to `batch` items for
    which `like` returns the same key (such as the image size); with few callers, batches are small
    and not delayed. If a batch runs out of memory, the batch size is halved permanently, and each
    result carries a remark that says so. If a batch fails for another reason, its items are run
    again one by one, so that only the faulty ones fail.
    """

    def __init__(
        self,
        forward: Callable[[Sequence[Item]], Sequence[Output]],
        batch: int,
        like: Callable[[Item], Hashable] = lambda item: None,
        name: str = "batches",
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch must be 1 or more, found {batch}")
        self.forward, self.like, self.name = forward, like, name
        self.max_batch, self.remarks = batch, ""
        self.queue: list[_Request[Item, Output]] = []
        self.changed = threading.Condition()
        self.worker: threading.Thread | None = None

    def __call__(self, item: Item) -> Output:
        """Wait for the result of one item and return it. An exception of `forward` for this item is
        raised here."""
        return self.many([item])[0]

    def many(self, items: Sequence[Item]) -> list[Output]:
        """Return the results of items, in order. The first exception of `forward` or `like` is
        raised here."""
        requests = [_Request[Item, Output](item, self.like(item)) for item in items]
        with self.changed:
            if self.worker is None:
                worker = threading.Thread(
                    target=self._run_worker, name=f"looktwice-{self.name}", daemon=True
                )
                worker.start()  # first, so that no caller waits if it cannot start
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
        """Stop the worker after the queued items; a later item starts a new one."""
        with self.changed:
            worker, self.worker = self.worker, None
            self.changed.notify_all()
        if worker is not None and worker is not threading.current_thread():
            worker.join()

    def _run_worker(self) -> None:
        me = threading.current_thread()
        while True:
            with self.changed:
                while not self.queue and self.worker is me:
                    self.changed.wait()
                batch = self._take_batch()
            if not batch:
                return
            self._run_batch(batch)

    def _take_batch(self) -> list[_Request[Item, Output]]:
        """Take the oldest item, and the later items with the same key, from the queue; return
        them."""
        chosen: list[_Request[Item, Output]] = []
        others: list[_Request[Item, Output]] = []
        for request in self.queue:
            alike = request.kind == self.queue[0].kind and len(chosen) < self.max_batch
            (chosen if alike else others).append(request)
        self.queue = others
        return chosen

    def _run_batch(self, batch: list[_Request[Item, Output]]) -> None:
        """Run a batch and deliver its results; every item gets a result or an exception."""
        try:
            with collect_remarks() as remarks:
                results = self.forward([request.item for request in batch])
            if len(results) != len(batch):
                raise RuntimeError(
                    f"{self.name} returned {len(results)} results for {len(batch)} items"
                )
        except BaseException as exc:
            failure = exc.with_traceback(None)  # because its frames would keep the tensors alive
        else:
            remarks += [self.remarks] if self.remarks else []
            for request, result in zip(batch, results, strict=True):
                request.result.set_result((result, remarks))
            return
        self._retry(batch, failure)

    def _retry(self, batch: list[_Request[Item, Output]], exc: BaseException) -> None:
        if len(batch) == 1:
            batch[0].result.set_exception(exc)
            return
        size = 1
        if is_out_of_memory(exc):
            size = self.max_batch = max(1, len(batch) // 2)
            self.remarks = (
                f"out of memory with {len(batch)} at once: {self.name} continues with {size}"
            )
            free_memory()
        for start in range(0, len(batch), size):
            self._run_batch(batch[start : start + size])


def is_out_of_memory(exc: BaseException) -> bool:
    """Return whether an exception reports that memory ran out, on the accelerator or on the
    host."""
    return isinstance(exc, MemoryError) or "out of memory" in str(exc).lower()


def free_memory() -> None:
    """Release the accelerator memory that torch keeps cached but does not use."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
