"""What the user allowed for good: which study, run or folder of questions may read what elsewhere.

Each lies in a file of its own in `looktwice/allowed` of the user's configuration folder, which is
`XDG_CONFIG_HOME`, by default `~/.config`, and holds for as long as what was allowed stays the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from looktwice.pipelines.disk import write_file


@dataclass(frozen=True)
class Allowance:
    """What lies at `path` may read what lies at or below `reads`, until one of its `files` changes.

    These are the files that name what is read, with their sha256.
    """

    path: str
    files: Mapping[str, str]
    reads: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether each file is still the one that was allowed."""
        return all(
            Path(file).is_file() and _sha256(Path(file)) == sha for file, sha in self.files.items()
        )


def allow(path: Path, files: Iterable[Path], reads: Iterable[Path]) -> None:
    """From now on `path` may read these, as long as its `files` stay as they are. Raises
    OSError."""
    whole = {str(file.resolve()): _sha256(file) for file in files}
    allowance = Allowance(str(path.resolve()), whole, tuple(sorted({str(read) for read in reads})))
    write_file(_place(path), json.dumps(asdict(allowance), indent=1))


def allowed_to(path: Path) -> tuple[Path, ...]:
    """What was allowed to what lies at `path`; nothing once one of its files has changed."""
    allowance = _read(_place(path))
    return tuple(map(Path, allowance.reads)) if allowance and allowance.holds else ()


def forget(path: Path) -> bool:
    """Take back what was allowed; whether there was anything."""
    try:
        _place(path).unlink()
    except FileNotFoundError:
        return False
    return True


def allowances() -> Iterator[Allowance]:
    """All that is allowed, by path."""
    read = (_read(place) for place in _folder().glob("*.json"))
    yield from sorted(
        (allowance for allowance in read if allowance), key=lambda allowance: allowance.path
    )


def _read(place: Path) -> Allowance | None:
    try:
        return _parse(place, place.stat().st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError):
        return None


@lru_cache(maxsize=64)  # a folder of questions asks for each of its pictures
def _parse(place: Path, written: int) -> Allowance:
    whole = json.loads(place.read_text(encoding="utf-8"))
    return Allowance(whole["path"], whole["files"], tuple(whole["reads"]))


def _place(path: Path) -> Path:
    return _folder() / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"


def _folder() -> Path:
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(configuration) / "looktwice" / "allowed"


def _sha256(file: Path) -> str:
    return _hash(file, file.stat().st_mtime_ns, file.stat().st_size)


@lru_cache(maxsize=64)
def _hash(file: Path, written: int, size: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
