"""The files of a dataset by their path inside it: in a folder, in a zip, or on a hub of
datasets."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path, PurePosixPath

from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config.paths import (
    Asker,
    OutsideError,
    allowed_roots,
    allowed_to,
    pass_fence,
    shortest,
)
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.picture import Picture, PictureError

LARGEST = 1 << 30  # an entry that claims to unpack to more is no image and no list of questions


def file_inside(root: Path, name: str) -> Path:
    """The file `name` of the folder; what leads out of it, and to no folder that is allowed, raises
    TaskError."""
    try:
        file = (root / name).resolve()
        inside = file.is_relative_to(root.resolve()) and not Path(name).is_absolute()
    except (OSError, RuntimeError, ValueError) as exc:
        raise TaskError(f"the path {name!r} leads nowhere ({exc})") from exc
    if not inside:
        asker = Asker(root, "folder of questions", shortest(root.resolve()))
        try:
            pass_fence(name, file, (*allowed_roots(), *allowed_to(root)), asker)
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
        """Whether there is such a file. Raises TaskError for a name that leads out of the
        folder."""
        return file_inside(self.root, name).is_file()

    def read(self, name: str) -> bytes:
        """Its bytes. Raises TaskError."""
        try:
            return read_file(file_inside(self.root, name))
        except OSError as exc:
            raise TaskError(f"{self.root / name} cannot be read ({exc.strerror})") from exc

    def ending(self, tail: str) -> Iterator[str]:
        """The names that end with these parts, the shortest first."""
        paths = (
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob(PurePosixPath(tail).name)
        )
        yield from sorted((name for name in paths if f"/{name}".endswith(f"/{tail}")), key=len)


@dataclass(frozen=True)
class ZipFiles:
    """The entries of a zip, read in place: nothing is unpacked onto the disk."""

    root: Path

    @cached_property
    def names(self) -> dict[str, zipfile.ZipInfo]:
        """The entries by name. Raises TaskError for a damaged zip, and for one with names that
        climb out of it."""
        entries = [entry for entry in self._zip.infolist() if not entry.is_dir()]
        wrong = [entry.filename for entry in entries if _leads_outside(entry.filename)]
        if wrong:
            raise TaskError(
                f"{self.root}: {len(wrong)} entries lead out of the folder, such as {wrong[0]!r};"
                " no data set needs that, so this zip is not read at all"
            )
        return {entry.filename: entry for entry in entries}

    def has(self, name: str) -> bool:
        """Whether there is such an entry. Raises TaskError for a name that leads out of the zip."""
        if _leads_outside(name):
            raise TaskError(f"the path {name!r} leads out of {self.root}; name a file in it")
        return str(PurePosixPath(name)) in self.names

    def read(self, name: str) -> bytes:
        """Its bytes. Raises TaskError, also where the checksum says that they are damaged."""
        entry = self.names.get(str(PurePosixPath(name)))
        if entry is None:
            raise TaskError(f"{self.root} has no entry {name}")
        if entry.file_size > LARGEST:
            raise TaskError(
                f"{self.root}: {name} would unpack to {entry.file_size} bytes; that is not read"
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
                f"{self.root}: the entry {name} is damaged ({exc}); fetch the zip again"
            ) from exc

    def ending(self, tail: str) -> Iterator[str]:
        """The names that end with these parts, the shortest first."""
        yield from sorted((name for name in self.names if f"/{name}".endswith(f"/{tail}")), key=len)

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.root)
        except (zipfile.BadZipFile, OSError) as exc:
            raise TaskError(
                f"{self.root} is no zip that can be read ({exc}); it may be cut short: fetch it"
                " again"
            ) from exc


Files = FolderFiles | ZipFiles
"""Files below one root, named with forward slashes."""


def open_files(path: Path) -> Files:
    """The files of a folder or a .zip. Raises TaskError for anything else, and for a zip that
    cannot be trusted."""
    path = Path(path)
    if path.is_dir():
        return FolderFiles(path)
    if path.suffix.lower() == ".zip" and path.is_file():
        files = ZipFiles(path)
        files.names  # noqa: B018  a damaged or hostile zip must be said before anything is asked
        return files
    raise TaskError(f"there is no folder and no .zip at {path}; `path` is where the data set lies")


def open_picture(files: Files, name: str) -> Picture:
    """An image of the set, read when it is looked at; one that cannot be read fails its own sample
    alone."""

    def fetch() -> bytes:
        try:
            return files.read(name)
        except TaskError as exc:
            raise PictureError(str(exc)) from exc

    return Picture.lazy(fetch, f"{files.root.name}/{name}")


def _leads_outside(name: str) -> bool:
    plain = PurePosixPath(name.replace("\\", "/"))
    return (
        plain.is_absolute() or ".." in plain.parts or ":" in (plain.parts[0] if plain.parts else "")
    )


DataLocation = tuple[Path, str]
"""Where the files lie, and the revision that names them (empty for local files)."""


def locate_data(
    path: Path | None, hub: str, revision: str, patterns: Sequence[str]
) -> DataLocation:
    """The folder of a data set: the local `path`, or the files of the hub id that match `patterns`,
    fetched once.

    The revision of the hub is its commit. Raises TaskError where both or neither is given, and
    where the hub cannot be reached.
    """
    if (path is None) == (not hub):
        raise TaskError(
            "say where the data lie: either `path` (a local folder) or `hub` (an id), and not both"
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
            f"hub: {hub} cannot be fetched ({exc}); fetch it yourself and say `path`"
        ) from exc
    return Path(folder), f"{hub}@{Path(folder).name}"
