"""Content-addressed storage: pictures as files named by their sha256, and results of networks by key."""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from looktwice.pipelines.disk import read_file, write_file

SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Blobs:
    """Content-addressed storage in `folder/ab/abcd...`, named by sha256. Safe between threads and processes."""

    folder: Path
    known: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def path(self, sha: str) -> Path:
        """Where the content with this sha256 lies, or would lie. Raises ValueError for anything but a sha256."""
        if not SHA256.fullmatch(sha):
            raise ValueError(f"{sha[:80]!r} is no sha256 in hexadecimal digits")
        return self.folder / sha[:2] / sha

    def put(self, data: bytes, sha: str = "") -> str:
        """Keep `data`; gives its sha256. A file appears whole or not at all."""
        sha = sha or hashlib.sha256(data).hexdigest()
        if sha in self.known:
            return sha
        path = self.path(sha)
        if sha[:2] not in self.known and path.parent.is_symlink():
            raise OSError(f"{path.parent} is a link; blobs lie in folders of their own, so remove it")
        try:
            there = stat.S_ISREG(os.lstat(path).st_mode)
        except OSError:
            there = False
        if not there:
            write_file(path, data)
        self.known.update((sha, sha[:2]))
        return sha

    def get(self, sha: str) -> bytes:
        """The content. Raises FileNotFoundError with the hash where it is not kept here.

        A link is not followed: in a folder that somebody sent it would read a file of this machine.
        """
        try:
            path = self.path(sha)
            if not path.is_symlink() and not path.parent.is_symlink():
                return read_file(path)
        except FileNotFoundError:
            pass
        raise FileNotFoundError(f"{self.folder} holds nothing under {sha}")

    def __contains__(self, sha: str) -> bool:
        return sha in self.known or self.path(sha).exists()


Result = TypeVar("Result")


@dataclass(frozen=True)
class ResultStore:
    """Results of specialists (dataclasses of arrays) by key, one compressed file each: `folder/ab/abcd....npz`.

    Safe between threads and processes: a file appears whole or not at all, and a damaged one counts as none.
    """

    folder: Path

    def get(self, key: str, kind: type[Result]) -> Result | None:
        """The result stored under a key, as a `kind`; None where there is none."""
        try:
            data = self._path(key).read_bytes()  # numpy leaves a damaged file open where it opens it itself
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                return kind(*(_plain(arrays[f.name]) for f in fields(kind)))  # type: ignore[arg-type]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def put(self, key: str, result: Any) -> None:
        """Store a dataclass of arrays, numbers and truth values."""
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {f.name: np.asarray(getattr(result, f.name)) for f in fields(result)}
        np.savez_compressed(buffer, **arrays)
        write_file(self._path(key), buffer.getvalue())

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.npz"


_current: ResultStore | None = None


@contextmanager
def use_result_store(folder: Path | None) -> Iterator[None]:
    """Inside, the specialists of every thread store their results in this folder; None stores nothing."""
    global _current
    before, _current = _current, ResultStore(folder) if folder is not None else None
    try:
        yield
    finally:
        _current = before


def current_store() -> ResultStore | None:
    """The store that is in use; where there is none, nothing has to be hashed either."""
    return _current


def result_key(name: str, *inputs: Any) -> str:
    """sha256 over a name, which holds settings and weights, and over arrays (dtype, shape, content) and texts."""
    digest = hashlib.sha256(name.encode())
    for each in inputs:
        if isinstance(each, np.ndarray):
            digest.update(f"\n{each.dtype.str}{each.shape}\n".encode())
            digest.update(np.ascontiguousarray(each).data)
        else:
            digest.update(f"\n{each!r}".encode())
    return digest.hexdigest()


def _plain(array: Any) -> Any:
    """A number or truth value again where the array has no dimension."""
    return array.item() if array.ndim == 0 else array
