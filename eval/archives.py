"""The files of a data set by their path inside it, whether it lies there as a folder or as one zip."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from looktwice.eval.folder_rows import inside
from looktwice.eval.task import TaskError
from looktwice.pipelines.picture import Picture, PictureError

__all__ = ["Files", "FolderFiles", "ZipFiles", "opened"]

LARGEST = 1 << 30  # an entry that claims to unpack to more is no image and no list of questions


class Files(Protocol):
    """Files below one root, named with forward slashes."""

    @property
    def root(self) -> Path:
        """The folder or the zip."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is such a file. Raises TaskError for a name that leads out of the root."""
        ...

    def read(self, name: str) -> bytes:
        """Its bytes. Raises TaskError."""
        ...

    def ending(self, tail: str) -> Iterator[str]:
        """The names that end with these parts, the shortest first."""
        ...


def opened(path: Path) -> Files:
    """The files of a folder or a .zip. Raises TaskError for anything else, and for a zip that cannot be trusted."""
    path = Path(path)
    if path.is_dir():
        return FolderFiles(path)
    if path.suffix.lower() == ".zip" and path.is_file():
        files = ZipFiles(path)
        files.names  # noqa: B018  a damaged or hostile zip must be said before anything is asked
        return files
    raise TaskError(f"there is no folder and no .zip at {path}; `path` is where the data set lies")


def picture(files: Files, name: str) -> Picture:
    """An image of the set, read when it is looked at; one that cannot be read fails its own sample alone."""

    def fetch() -> bytes:
        try:
            return files.read(name)
        except TaskError as exc:
            raise PictureError(str(exc)) from exc

    return Picture.lazy(fetch, f"{files.root.name}/{name}")


def sha256(data: bytes) -> str:
    """What facts state of a file as its revision."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder."""

    root: Path

    def has(self, name: str) -> bool:
        """Whether there is such a file. Raises TaskError for a name that leads out of the folder."""
        return inside(self.root, name).is_file()

    def read(self, name: str) -> bytes:
        """Its bytes. Raises TaskError."""
        try:
            return inside(self.root, name).read_bytes()
        except OSError as exc:
            raise TaskError(f"{self.root / name} cannot be read ({exc.strerror})") from exc

    def ending(self, tail: str) -> Iterator[str]:
        """The names that end with these parts, the shortest first."""
        found = (path.relative_to(self.root).as_posix() for path in self.root.rglob(PurePosixPath(tail).name))
        yield from sorted((name for name in found if f"/{name}".endswith(f"/{tail}")), key=len)


@dataclass(frozen=True)
class ZipFiles:
    """The entries of a zip, read in place: nothing is unpacked onto the disk."""

    root: Path

    @cached_property
    def names(self) -> dict[str, zipfile.ZipInfo]:
        """The entries by name. Raises TaskError for a damaged zip, and for one with names that climb out of it."""
        entries = [entry for entry in self._zip.infolist() if not entry.is_dir()]
        wrong = [entry.filename for entry in entries if _climbs(entry.filename)]
        if wrong:
            raise TaskError(
                f"{self.root}: {len(wrong)} entries lead out of the folder, such as {wrong[0]!r}; no data set needs "
                "that, so this zip is not read at all"
            )
        return {entry.filename: entry for entry in entries}

    def has(self, name: str) -> bool:
        """Whether there is such an entry. Raises TaskError for a name that leads out of the zip."""
        if _climbs(name):
            raise TaskError(f"the path {name!r} leads out of {self.root}; name a file in it")
        return str(PurePosixPath(name)) in self.names

    def read(self, name: str) -> bytes:
        """Its bytes. Raises TaskError, also where the checksum says that they are damaged."""
        entry = self.names.get(str(PurePosixPath(name)))
        if entry is None:
            raise TaskError(f"{self.root} has no entry {name}")
        if entry.file_size > LARGEST:
            raise TaskError(f"{self.root}: {name} would unpack to {entry.file_size} bytes; that is not read")
        try:
            return self._zip.read(entry)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError) as exc:
            raise TaskError(f"{self.root}: the entry {name} is damaged ({exc}); fetch the zip again") from exc

    def ending(self, tail: str) -> Iterator[str]:
        """The names that end with these parts, the shortest first."""
        yield from sorted((name for name in self.names if f"/{name}".endswith(f"/{tail}")), key=len)

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.root)
        except (zipfile.BadZipFile, OSError) as exc:
            raise TaskError(
                f"{self.root} is no zip that can be read ({exc}); it may be cut short: fetch it again"
            ) from exc


def _climbs(name: str) -> bool:
    plain = PurePosixPath(name.replace("\\", "/"))
    return plain.is_absolute() or ".." in plain.parts or ":" in (plain.parts[0] if plain.parts else "")
