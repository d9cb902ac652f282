"""Files named by the sha256 of what they hold, each kept once: pictures that were sent, results of networks."""

from __future__ import annotations

import hashlib
import io
import os
import re
import threading
import zipfile
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Blobs:
    """Puts bytes under `folder/ab/abcd...` and gets them back. Safe between threads and processes."""

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
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f"{sha}.{os.getpid()}.{threading.get_ident()}.part")
            draft.write_bytes(data)
            draft.replace(path)
        self.known.add(sha)
        return sha

    def get(self, sha: str) -> bytes:
        """The content. Raises FileNotFoundError with the hash where it is not kept here."""
        try:
            return self.path(sha).read_bytes()
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.folder} holds nothing under {sha}") from None

    def __contains__(self, sha: str) -> bool:
        return sha in self.known or self.path(sha).exists()


Found = TypeVar("Found")


@dataclass(frozen=True)
class Findings:
    """Dataclasses of arrays by key, a compressed file each, under `folder/ab/abcd....npz`.

    Safe between threads and processes: a file appears whole or not at all, and a damaged one counts as none.
    """

    folder: Path

    def get(self, key: str, kind: type[Found]) -> Found | None:
        """What is kept under a key, as a `kind`; None where nothing is."""
        try:
            data = self._path(key).read_bytes()  # numpy leaves a damaged file open where it opens it itself
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                return kind(*(_plain(arrays[f.name]) for f in fields(kind)))  # type: ignore[arg-type]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def put(self, key: str, found: Any) -> None:
        """Keep a dataclass of arrays, numbers and truth values."""
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {f.name: np.asarray(getattr(found, f.name)) for f in fields(found)}
        np.savez_compressed(buffer, **arrays)
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
        draft.write_bytes(buffer.getvalue())
        draft.replace(path)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.npz"


_OPEN: list[Findings] = []


def keep_in(folder: Path | None) -> None:
    """From now on keep what specialists find in this folder; None keeps nothing, as at the start of a process."""
    _OPEN[:] = [Findings(folder)] if folder is not None else []


def recall(key: str, kind: type[Found]) -> Found | None:
    """What is kept under a key, as a `kind`; None where nothing is, or no folder is set."""
    return _OPEN[0].get(key, kind) if _OPEN else None


def keep(key: str, found: Any) -> None:
    """Keep a result under a key, where a folder is set."""
    if _OPEN:
        _OPEN[0].put(key, found)


def key_of(name: str, *inputs: Any) -> str:
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
