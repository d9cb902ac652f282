"""Which records have lost a blob: a message or picture that is gone or torn, as after a power cut."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property

from looktwice.eval.records.records import Record
from looktwice.pipelines.runtime.stores import Blobs

BINARY = getattr(os, "O_BINARY", 0)  # Windows changes line ends without it


@dataclass(frozen=True)
class LostBlobs:
    """Looks at every blob once, and removes what is torn, so that it can be written again.

    A picture is whole where it has its recorded size, a message where its bytes fit its name.
    """

    blobs: Blobs
    whole: set[str] = field(default_factory=set)

    def of(self, record: Record) -> bool:
        """Whether one of the record's blobs is gone or torn."""
        wanted = {sha: None for call in record.calls for sha in call["messages"]}
        sizes = {kept["sha"]: kept.get("bytes") for kept in record.sent}
        whole = self.whole
        messages = [sha for sha in wanted if sha not in whole and not self._is_message(sha)]
        pictures = [sha for sha in record.pictures if sha not in whole and not self._has_size(sha, sizes.get(sha))]
        return bool(messages or pictures)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The sizes of all blobs by name: a listing costs far less than a look at each."""
        found: dict[str, int] = {}
        folders = os.scandir(self.blobs.folder) if self.blobs.folder.is_dir() else ()
        for folder in folders:
            if folder.is_dir(follow_symlinks=False):
                files = (entry for entry in os.scandir(folder.path) if entry.is_file(follow_symlinks=False))
                found |= {entry.name: entry.stat().st_size for entry in files}
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

    def _is_message(self, sha: str) -> bool:
        size = self._sizes.get(sha)
        if size is None:
            return False
        file = os.open(f"{self.blobs.folder}/{sha[:2]}/{sha}", os.O_RDONLY | BINARY)  # there are as many as records
        try:
            data = os.read(file, size)
        finally:
            os.close(file)
        if hashlib.sha256(data).hexdigest() != sha:
            self._remove(sha)
            return False
        self.whole.add(sha)
        return True

    def _remove(self, sha: str) -> None:
        self.blobs.path(sha).unlink(missing_ok=True)
        self._sizes.pop(sha, None)
