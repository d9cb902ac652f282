"""A folder of files named by the sha256 of their content: each content is kept once."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Blobs"]


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
