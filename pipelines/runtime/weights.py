"""The digest of a network's weights, and the error for weights that are missing."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from looktwice.pipelines.disk import write_file

MIN_CACHED_DIGEST_BYTES = 8 << 20  # bytes; the digest of a larger file is cached


class WeightsError(ValueError):
    """Raised if a network cannot be opened; the message gives its id, what was tried and what to
    type."""


def hash_weights(path: str | Path) -> str:
    """Compute the sha256 of a weights file, or of all files in a folder.

    The digest of a large file is cached in the user's cache folder (XDG_CACHE_HOME), together with
    the file's size and time.
    """
    place = Path(path).expanduser().resolve()
    files = (
        [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    )
    digest = hashlib.sha256()
    for file in files:
        facts = file.stat()
        digest.update(f"{file.name}\n".encode())
        digest.update(_hash_file(file, facts.st_size, facts.st_mtime_ns))
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _hash_file(file: Path, size: int, changed: int) -> bytes:
    """Return the sha256 of a file, cached by its size and modification time; for a large file, the
    cache is on disk and shared by all commands."""
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "looktwice" / "digests"
    )
    note = folder / hashlib.sha256(str(file).encode()).hexdigest()[:32]
    version = f"{size} {changed} "
    if size >= MIN_CACHED_DIGEST_BYTES:
        with suppress(OSError, ValueError):
            noted = note.read_text(encoding="ascii")
            if noted.startswith(version):
                return bytes.fromhex(noted.removeprefix(version))
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").digest()
    if size >= MIN_CACHED_DIGEST_BYTES:
        with suppress(OSError):  # then it is computed each time
            folder.mkdir(parents=True, exist_ok=True)
            write_file(note, version + digest.hex())
    return digest
