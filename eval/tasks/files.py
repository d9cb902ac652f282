"""The files of a data set, in a folder, in a zip or on the Hugging Face hub."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path, PurePosixPath

from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config.paths import OutsideError, Scope, check_access, read_allowed
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.picture import Picture, PictureError

MAX_ENTRY_BYTES = 1 << 30  # bytes; a larger entry is neither an image nor a list of questions


def resolve_inside(root: Path, name: str) -> Path:
    """Return the file `name` of the folder. Raises TaskError if the path leads out of the folder,
    unless it leads into an allowed one. Backslashes in paths work on every system."""
    if "\\" in name and not os.path.lexists(root / name):
        name = name.replace("\\", "/")
    try:
        file = (root / name).resolve()
        inside = file.is_relative_to(root.resolve()) and not Path(name).is_absolute()
    except (OSError, RuntimeError, ValueError) as exc:
        raise TaskError(f"the path {name!r} cannot be resolved ({exc})") from exc
    if not inside:
        own = root.resolve()
        scope = Scope(root, allowed=read_allowed(), kind="folder of questions", source=own)
        try:
            check_access(name, file, (own,), scope)
        except OutsideError as exc:
            raise TaskError(
                f"the path {name!r} leads out of the folder {root}; copy the file into it, or"
                f" {exc.advice}"
            ) from exc
    return root / name


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder."""

    root: Path

    def has(self, name: str) -> bool:
        """Return whether this file exists. Raises TaskError for a name that leads out of the
        folder."""
        return resolve_inside(self.root, name).is_file()

    def read(self, name: str) -> bytes:
        """Return the bytes of the file. Raises TaskError."""
        try:
            return read_file(resolve_inside(self.root, name))
        except OSError as exc:
            hint = ""
            if self.root.is_file():
                hint = f"; set `path` to {self.root.parent} and `file` to {self.root.name}"
                hint += "; for tables, use eval.tasks.Columns"
            elif others := sorted(path.name for path in self.root.glob(f"*{Path(name).suffix}")):
                hint = f"; the folder has {', '.join(others[:3])}: set `file`"
            raise TaskError(f"{self.root / name} cannot be read ({exc.strerror}){hint}") from exc

    def find_by_suffix(self, tail: str) -> Iterator[str]:
        """Yield the paths that end with these components, shortest first."""
        paths = self.root.rglob(PurePosixPath(tail).name)
        yield from _filter_by_suffix(
            (path.relative_to(self.root).as_posix() for path in paths), tail
        )


@dataclass(frozen=True)
class ZipFiles:
    """The entries of a zip, read without unpacking it to disk."""

    root: Path

    @cached_property
    def names(self) -> dict[str, zipfile.ZipInfo]:
        """The entries by name. Raises TaskError for a damaged zip, and for a zip whose entries lead
        out of it."""
        entries = {entry.filename: entry for entry in self._zip.infolist() if not entry.is_dir()}
        if wrong := list(filter(_is_outside, entries)):
            raise TaskError(
                f"{self.root}: {len(wrong)} entries lead out of the folder, such as {wrong[0]!r};"
                " no data set needs that, so the zip is refused"
            )
        return entries

    def has(self, name: str) -> bool:
        """Return whether this entry exists. Raises TaskError if the name leads out of the zip."""
        if _is_outside(name):
            raise TaskError(f"the path {name!r} leads out of {self.root}; name a file in it")
        return self._entry(name) is not None

    def read(self, name: str) -> bytes:
        """Return the bytes of the entry. Raises TaskError if it cannot be read or its checksum does
        not match."""
        entry = self._entry(name)
        if entry is None:
            raise TaskError(f"{self.root} has no entry {name}")
        if entry.file_size > MAX_ENTRY_BYTES:
            raise TaskError(
                f"{self.root}: {name} would unpack to {entry.file_size} bytes, more than"
                f" {MAX_ENTRY_BYTES}"
            )
        try:
            return self._zip.read(entry)
        except (
            zipfile.BadZipFile,
            zlib.error,
            OSError,
            EOFError,
            RuntimeError,
            NotImplementedError,
        ) as exc:
            raise TaskError(
                f"{self.root}: the entry {name} is damaged ({exc}); download the zip again"
            ) from exc

    def find_by_suffix(self, tail: str) -> Iterator[str]:
        """Yield the paths that end with these components, shortest first."""
        yield from _filter_by_suffix(self.names, tail)

    def _entry(self, name: str) -> zipfile.ZipInfo | None:
        spellings = (name, name.replace("\\", "/"))
        entries = (self.names.get(str(PurePosixPath(spelling))) for spelling in spellings)
        return next(filter(None, entries), None)

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.root)
        except (zipfile.BadZipFile, OSError) as exc:
            raise TaskError(
                f"{self.root} is not a readable zip ({exc}); it may be truncated: download it again"
            ) from exc


Files = FolderFiles | ZipFiles
"""Files below one root, named with forward slashes."""


def open_files(path: Path) -> Files:
    """Open the files of a folder or a .zip. Raises TaskError for any other path, and for a zip that
    cannot be trusted."""
    path = Path(path)
    if path.is_dir():
        return FolderFiles(path)
    if path.suffix.lower() == ".zip" and path.is_file():
        files = ZipFiles(path)
        files.names  # noqa: B018  report a damaged or hostile zip before anything is asked
        return files
    raise TaskError(f"there is no folder and no .zip at {path}; set `path` to the data set")


def open_picture(files: Files, name: str) -> Picture:
    """Return an image of the data set, which is read on first use; if it is unreadable, only its
    own sample fails."""

    def fetch() -> bytes:
        try:
            return files.read(name)
        except TaskError as exc:
            raise PictureError(str(exc)) from exc

    def exists() -> bool:
        try:
            return files.has(name)
        except TaskError:  # `fetch` reports the reason
            return False

    picture = Picture.lazy(fetch, f"{files.root.name}/{name}", exists)
    picture.path = files.root / name if isinstance(files, FolderFiles) else None
    return picture


def _filter_by_suffix(names: Iterable[str], tail: str) -> list[str]:
    return sorted((name for name in names if f"/{name}".endswith(f"/{tail}")), key=len)


def _is_outside(name: str) -> bool:
    plain = PurePosixPath(name.replace("\\", "/"))
    return plain.is_absolute() or ".." in plain.parts or ":" in "".join(plain.parts[:1])


DataLocation = tuple[Path, str]
"""The path of the files, and their revision (empty for local files)."""


def locate_data(
    path: Path | None, hub: str, revision: str, patterns: Sequence[str]
) -> DataLocation:
    """Return the folder of a data set: the local `path`, or the files of the hub id that match
    `patterns`, downloaded once.

    The revision of a data set on the hub is its commit. Raises TaskError unless exactly one of
    `path` and `hub` is given, and if the hub cannot be reached.
    """
    if (path is None) == (not hub):
        raise TaskError(
            "set either `path` (a local folder) or `hub` (an id) to locate the data, but not both"
        )
    if path is not None:
        return Path(path), ""
    try:
        fetch = import_module("huggingface_hub").snapshot_download
    except ImportError as exc:
        raise TaskError(
            f"hub: {hub} needs huggingface_hub; install it with: pip install huggingface_hub"
        ) from exc
    try:
        folder = fetch(
            hub, repo_type="dataset", revision=revision or None, allow_patterns=list(patterns)
        )
    except (OSError, ValueError) as exc:
        raise TaskError(
            f"hub: {hub} cannot be downloaded ({exc}); download it yourself and set `path`"
        ) from exc
    return Path(folder), f"{hub}@{Path(folder).name}"
