"""Content-addressed storage: pictures as files named by sha256, and results of networks."""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from looktwice.pipelines.disk import MAX_FILE_BYTES, read_file, write_file
from looktwice.pipelines.state import collect_remarks, remark

SHA256_PATTERN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Blobs:
    """Content-addressed files `folder/ab/abcd...`. Safe between threads and processes."""

    folder: Path
    known_names: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def get_path(self, sha: str) -> Path:
        """Return the path for content with this sha256, whether or not it is stored. Raises
        ValueError for anything that is not a sha256."""
        if not SHA256_PATTERN.fullmatch(sha):
            raise ValueError(f"{sha[:80]!r} is not a sha256 in hexadecimal digits")
        return self.folder / sha[:2] / sha

    def put(self, data: bytes, sha: str = "") -> str:
        """Store `data` atomically and return its sha256."""
        sha = sha or hashlib.sha256(data).hexdigest()
        if sha in self.known_names:
            return sha
        path = self.get_path(sha)
        if sha[:2] not in self.known_names and path.parent.is_symlink():
            raise OSError(f"{path.parent} is a link, but blobs need real folders; remove it")
        try:
            stored = path.lstat()
            is_whole = stat.S_ISREG(stored.st_mode) and stored.st_size == len(data)
        except FileNotFoundError:
            is_whole = False
        if not is_whole:  # a power cut may have left it shorter
            write_file(path, data)
        self.known_names.update((sha, sha[:2]))
        return sha

    def get(self, sha: str) -> bytes:
        """Return the content. Raises FileNotFoundError with the hash if it is not stored here.

        Links are not followed: in a folder from somebody else, they could point to a file of this
        machine.
        """
        if not SHA256_PATTERN.fullmatch(sha):
            self.get_path(sha)  # it says what is wrong
        folder = f"{self.folder}/{sha[:2]}"
        path = f"{folder}/{sha}"
        with suppress(FileNotFoundError):
            found = os.lstat(path)
            if not stat.S_ISLNK(found.st_mode) and not self._is_link(folder):
                is_plain = stat.S_ISREG(found.st_mode) and found.st_size <= MAX_FILE_BYTES
                return _read(path) if is_plain else read_file(Path(path))
        raise FileNotFoundError(f"{self.folder} holds nothing under {sha}")

    def _is_link(self, folder: str) -> bool:
        if folder in self.known_names:
            return False
        if os.path.islink(folder):
            return True
        self.known_names.add(folder)
        return False

    def list_names(self) -> set[str]:
        """Return the names of all stored blobs, except empty files, which a power cut may leave.
        One listing is cheaper than many lookups."""
        if not self.folder.is_dir():
            return set()
        names = set()
        with os.scandir(self.folder) as folders:
            for folder in folders:
                if folder.is_dir(follow_symlinks=False):
                    names |= _list_names_in(folder.path)
        return names

    def __contains__(self, sha: str) -> bool:
        return sha in self.known_names or self.get_path(sha).exists()


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _list_names_in(folder: str) -> set[str]:
    names = set()
    with os.scandir(folder) as files:
        for file in files:
            with suppress(FileNotFoundError):  # a draft was renamed meanwhile
                if file.is_file(follow_symlinks=False) and file.stat().st_size:
                    names.add(file.name)
    return names


Result = TypeVar("Result")
CLASS_ARRAY_NAME = "of class"  # an array name that no field can have


@dataclass(eq=False)
class MemoryCache:
    """An in-memory cache of recent results, up to `max_bytes`.

    The first thread that asks for a result computes it, and the others wait for it. A failure is
    not shared: each waiting thread tries again.
    """

    max_bytes: int = 256 << 20
    size: int = 0
    entries: OrderedDict[str, tuple[Any, int, list[str]]] = field(default_factory=OrderedDict)
    key_locks: WeakValueDictionary[str, threading.Lock] = field(default_factory=WeakValueDictionary)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get_or_compute(self, key: str, compute: Callable[[], tuple[Result, int | None]]) -> Result:
        """Return the cached result of a key, or that of `compute`, which also returns its size in
        bytes. A result with size None is not cached."""
        with self.lock:
            key_lock = self.key_locks.setdefault(key, threading.Lock())
        with key_lock:
            result, remarks = self._look_up(key, compute)
        for sentence in remarks:
            remark(sentence)
        return result

    def _look_up(
        self, key: str, compute: Callable[[], tuple[Result, int | None]]
    ) -> tuple[Result, list[str]]:
        with self.lock:
            if key in self.entries:
                self.entries.move_to_end(key)
                result, _, remarks = self.entries[key]
                return result, remarks
        with collect_remarks() as remarks:
            result, size = compute()
        if size is not None:
            with self.lock:
                self.entries[key] = result, size, remarks
                self.size += size
                while self.size > self.max_bytes:
                    _, (_, gone, _) = self.entries.popitem(last=False)
                    self.size -= gone
        return result, remarks


@dataclass(frozen=True)
class ResultStore:
    """Results of specialists (dataclasses of arrays) by key, one compressed file each:
    `folder/ab/abcd....npz`.

    Safe between threads and processes: writes are atomic, and damaged files are ignored. `memory`
    holds recent results.
    """

    folder: Path
    memory: MemoryCache = field(default_factory=MemoryCache, repr=False, compare=False)

    def get(self, key: str, *kinds: type[Result]) -> Result | None:
        """Return the result stored under a key, or None. Its class is the one of `kinds` that the
        file names, or the first if it names none."""
        try:
            # numpy leaves a damaged file open if it opens it itself
            data = io.BytesIO(self._get_path(key).read_bytes())
            with np.load(data, allow_pickle=False) as arrays:
                name = (
                    str(arrays[CLASS_ARRAY_NAME])
                    if CLASS_ARRAY_NAME in arrays
                    else kinds[0].__name__
                )
                kind = next(kind for kind in kinds if kind.__name__ == name)
                stored = [arrays[field.name] for field in fields(kind)]  # type: ignore[arg-type]
                # a number or boolean has no dimension
                return kind(*(array if array.ndim else array.item() for array in stored))
        except (OSError, ValueError, KeyError, StopIteration, EOFError, zipfile.BadZipFile):
            return None

    def put(self, key: str, result: Any) -> None:
        """Store a dataclass of arrays, numbers and booleans."""
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {
            f.name: np.asarray(getattr(result, f.name)) for f in fields(result)
        }
        arrays[CLASS_ARRAY_NAME] = np.asarray(type(result).__name__)
        np.savez_compressed(buffer, **arrays)
        write_file(self._get_path(key), buffer.getvalue())

    def _get_path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.npz"


_stores_in_use: list[
    tuple[object, ResultStore | None]
] = []  # runs in two threads may end in any order


@contextmanager
def use_result_store(folder: Path | None) -> Iterator[None]:
    """Store the results of specialists, in every thread, in this folder while the context is open;
    None stores nothing."""
    mine = object(), ResultStore(folder) if folder is not None else None
    _stores_in_use.append(mine)
    try:
        yield
    finally:
        _stores_in_use.remove(mine)


def get_current_store() -> ResultStore | None:
    """Return the store in use that was opened last, or None."""
    latest = _stores_in_use[-1:]
    return latest[0][1] if latest else None


def make_result_key(name: str, *inputs: Any) -> str:
    """Compute the sha256 of a name (with its settings and weights) and of the inputs: arrays,
    strings, dataclasses and lists of these."""
    digest = hashlib.sha256(name.encode())
    for value in inputs:
        if is_dataclass(value):
            digest.update(
                make_result_key(
                    type(value).__name__, *(getattr(value, f.name) for f in fields(value))
                ).encode()
            )
        elif isinstance(value, np.ndarray):
            digest.update(f"\n{value.dtype.str}{value.shape}\n".encode())
            digest.update(np.ascontiguousarray(value).data)
        elif isinstance(value, list | tuple):
            digest.update(make_result_key("list", *value).encode())
        else:
            digest.update(f"\n{value!r}".encode())
    return digest.hexdigest()
