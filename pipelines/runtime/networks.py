"""Networks in memory: one of each per process, opened once however many threads ask, and closed by
the runner."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from looktwice.pipelines.disk import write_file
from looktwice.pipelines.runtime.batches import free_memory

AGAIN_S = 60.0  # seconds after which what could not be fetched is tried anew

LARGE = 8 << 20  # bytes of a file whose digest is kept

# transformers is not thread-safe: a second thread may find it half imported
OPENING = threading.RLock()

Dtype = Literal["auto", "float32", "float16", "bfloat16"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Thing = TypeVar("Thing")


class WeightsError(ValueError):
    """A network that cannot be opened; the message says its id, what was tried and what to type."""


class FetchError(WeightsError):
    """Weights that another machine did not give; for a minute, the same is said again without
    another try."""


@dataclass(frozen=True)
class Place:
    """Where a network runs: `device` and `dtype` as torch names them."""

    device: str
    dtype: str

    @classmethod
    def of(cls, device: str, dtype: str, half: str = "float16") -> Place:
        """What "auto" stands for here: CUDA, else MPS, else CPU; the precision `half` on CUDA, else
        float32.

        Raises WeightsError for a device that this machine lacks.
        """
        torch = import_torch()
        there = {
            "cpu": True,
            "cuda": torch.cuda.is_available(),
            "mps": torch.backends.mps.is_available(),
        }
        if device == "auto":
            device = next(name for name in ("cuda", "mps", "cpu") if there[name])
        if not there[device]:
            able = ", ".join(name for name, is_there in there.items() if is_there)
            raise WeightsError(
                f"device {device!r} was asked for, torch finds only {able} here; set device: auto"
            )
        if dtype == "auto":
            dtype = half if device == "cuda" else "float32"
        return cls(device, dtype)

    @property
    def torch_dtype(self) -> Any:
        """The dtype object."""
        return getattr(import_torch(), self.dtype)


class _Store:
    """Resources by key: the first thread that asks opens one while the others wait.

    A failure is forgotten, for a file may be put right at any time; what could not be fetched is
    remembered for `AGAIN_S`, or each sample of a run would wait for the same silence.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turns: dict[Hashable, threading.Lock] = {}
        self.things: dict[Hashable, Any] = {}
        self.failed: dict[Hashable, tuple[float, FetchError]] = {}

    def get(self, key: Hashable, open_: Callable[[], Any]) -> Any:
        with self.lock:
            turn = self.turns.setdefault(key, threading.Lock())
        with turn:
            since, failure = self.failed.get(key, (0.0, None))
            if failure is not None and time.monotonic() - since < AGAIN_S:
                raise FetchError(str(failure))
            if key not in self.things:
                try:
                    self.things[key] = open_()
                except FetchError as exc:
                    self.failed[key] = time.monotonic(), exc
                    raise
            return self.things[key]

    def close(self) -> None:
        with self.lock:
            things, self.things, self.failed, self.turns = list(self.things.values()), {}, {}, {}
        if not things:
            return
        for resource in reversed(things):
            getattr(resource, "close", lambda: None)()
        del things, resource
        gc.collect()
        free_memory()


_STORE = _Store()

Elsewhere = Callable[..., Any]
"""Gives what a method of a network's owner gives for arguments, in another process."""

_elsewhere: Elsewhere | None = None


def run_elsewhere(place: Elsewhere | None) -> None:
    """From now on the networks of this process lie elsewhere; None brings them back."""
    global _elsewhere
    _elsewhere = place


def elsewhere() -> Elsewhere | None:
    """Where the networks of this process lie, if not here."""
    return _elsewhere


def open_shared(key: Hashable, open_: Callable[[], Thing]) -> Thing:
    """The resource that this process shares under `key`, opened at its first use. Raises
    WeightsError."""
    resource: Thing = _STORE.get(key, open_)
    return resource


def close_networks() -> None:
    """Free the memory of every network; a later use opens it again."""
    _STORE.close()


def import_torch() -> Any:
    """The torch module. Raises WeightsError with what to type where it is missing."""
    return import_extra("torch", "torch")


def import_transformers() -> Any:
    """The transformers module. Raises WeightsError with what to type where it is missing."""
    transformers = import_extra("transformers", "hf")
    # its retries, a line each, would drown the one sentence at their end
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    return transformers


def import_extra(name: str, extra: str) -> Any:
    """A module that comes with an extra of ours, and says nothing by itself. Raises WeightsError
    with what to type where it is missing, or torch, which all build on."""
    if name != "torch":
        import_torch()
    try:
        with OPENING:
            module = import_module(name)
    except ImportError as exc:
        raise WeightsError(
            f"{name} is not installed; type: pip install 'looktwice[{extra}]'"
        ) from exc
    if name != "torch":
        module.utils.logging.set_verbosity_error()
        module.utils.logging.disable_progress_bar()
    return module


def weights_hash(path: str | Path) -> str:
    """sha256 over a weights file, or over all files of a folder and below.

    That of a large file is kept in the user's cache folder (XDG_CACHE_HOME), with the size and time
    of which it is.
    """
    place = Path(path).expanduser().resolve()
    files = (
        [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    )
    digest = hashlib.sha256()
    for file in files:
        facts = file.stat()
        digest.update(f"{file.name}\n".encode())
        digest.update(_file_digest(file, facts.st_size, facts.st_mtime_ns))
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _file_digest(file: Path, size: int, changed: int) -> bytes:
    """The sha256 of a file, of this size and time; that of a large one is computed once for all
    commands."""
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "looktwice" / "digests"
    )
    note = folder / hashlib.sha256(str(file).encode()).hexdigest()[:32]
    version = f"{size} {changed} "
    if size >= LARGE:
        with suppress(OSError, ValueError):
            noted = note.read_text(encoding="ascii")
            if noted.startswith(version):
                return bytes.fromhex(noted.removeprefix(version))
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").digest()
    if size >= LARGE:
        with suppress(OSError):  # then it is computed each time
            folder.mkdir(parents=True, exist_ok=True)
            write_file(note, version + digest.hex())
    return digest


def weights_file(path: str | Path) -> Path:
    """The weights file that a setting names. Raises WeightsError where there is none."""
    place = Path(path).expanduser()
    if not place.is_file():
        raise WeightsError(f"there is no weights file {place}; set model: to the path of one")
    return place


def first_line(exc: BaseException) -> str:
    """The first line of what a library said, at most 300 characters of it."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return (lines[0] if lines else type(exc).__name__)[:300]
