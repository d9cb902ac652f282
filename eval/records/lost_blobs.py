"""Which records have lost a blob: a message or picture that is gone or torn, as after a power cut."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.records.records import Key, RunFolder
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.runtime.stores import SHA256, Blobs

BINARY = getattr(os, "O_BINARY", 0)  # Windows changes line ends without it
ON_DISK = 300.0
"""Seconds after which what was written has long left the memory, so that a power cut takes nothing of it."""


@dataclass(frozen=True)
class LostBlobs:
    """Looks at every blob, and removes what is torn, so that it can be written again.

    A picture is whole where it has its recorded size, a message where its bytes fit its name. A message that was found
    whole is not read again: one that is not empty and whose file is `ON_DISK` seconds older than `.checked`, which
    marks the last look at all of them.
    """

    blobs: Blobs
    whole: set[str] = field(default_factory=set)

    def look_through(self, run: RunFolder) -> tuple[dict[Key, bool], set[Key]]:
        """Whether the last record of each key failed, and the keys of those that have lost a blob. Raises RunError."""
        failed, lost = dict[Key, bool](), set[Key]()
        for record in run.parsed_lines():
            key = record["point"], record["sample"], record.get("draw", 0)
            failed[key] = bool(record.get("error"))
            if not failed[key] and self._of(record):  # its replies are in the cache, which gives it back
                lost.add(key)
            elif lost:
                lost.discard(key)
        self._finish()
        return failed, lost

    def _of(self, record: Mapping[str, Any]) -> bool:
        """Whether one of the record's blobs is gone or torn."""
        whole = self.whole
        lost = [s for c in record.get("calls", ()) for s in c["messages"] if s not in whole and not self._is_whole(s)]
        if pictures := record.get("pictures"):
            sizes = {kept["sha"]: kept.get("bytes") for kept in record.get("sent", ())}
            lost += [sha for sha in pictures if sha not in whole and not self._has_size(sha, sizes.get(sha))]
        return bool(lost)

    def _finish(self) -> None:
        """Look at what no record asked for, as one that was lost in a power cut, and mark that all was looked at."""
        for sha in self._unread - self.whole:
            self._is_whole(sha)
        if self.blobs.folder.is_dir():
            write_file(self._mark, b"")

    @property
    def _mark(self) -> Path:
        return self.blobs.folder.parent / ".checked"

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The sizes of all blobs by name: a listing costs far less than a look at each."""
        return {name: size for name, (size, _) in self._listed.items()}

    @cached_property
    def _unread(self) -> set[str]:
        """The blobs that were written, or may have been on their way to the disk, since the last look."""
        last = self._mark.stat().st_mtime if self._mark.exists() else 0.0
        return {name for name, (size, written) in self._listed.items() if not size or written > last - ON_DISK}

    @cached_property
    def _listed(self) -> dict[str, tuple[int, float]]:
        found: dict[str, tuple[int, float]] = {}
        for folder in os.scandir(self.blobs.folder) if self.blobs.folder.is_dir() else ():
            if folder.is_dir(follow_symlinks=False):
                for entry in os.scandir(folder.path):
                    if SHA256.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        about = entry.stat()
                        found[entry.name] = about.st_size, about.st_mtime
        return found

    def _has_size(self, sha: str, size: int | None) -> bool:
        found = self._sizes.get(sha)
        if found is None:
            return False
        if found == 0 or size not in (None, found):
            self._remove(sha)
            return False
        self.whole.add(sha)
        return True

    def _is_whole(self, sha: str) -> bool:
        size = self._sizes.get(sha)
        if size is None:
            return False
        if sha in self._unread and not self._fits(sha, size):
            self._remove(sha)
            return False
        self.whole.add(sha)
        return True

    def _fits(self, sha: str, size: int) -> bool:
        """Whether the bytes are those of the name."""
        file = os.open(f"{self.blobs.folder}/{sha[:2]}/{sha}", os.O_RDONLY | BINARY)  # there are as many as records
        try:
            return hashlib.sha256(os.read(file, size)).hexdigest() == sha
        finally:
            os.close(file)

    def _remove(self, sha: str) -> None:
        self.blobs.path(sha).unlink(missing_ok=True)
        self._sizes.pop(sha, None)
