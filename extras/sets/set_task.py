"""The base class of the sets, and functions that read JSON files and images in folders and zips."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import Facts, TaskError
from looktwice.eval.tasks.cells import as_list
from looktwice.eval.tasks.files import (
    DataLocation,
    Files,
    ZipFiles,
    locate_data,
    open_files,
    open_picture,
)
from looktwice.eval.tasks.row_task import RowTask
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.picture import Picture

UTF8_NAME_FLAG = 0x800
"""The flag of a zip entry whose name is UTF-8; names without this flag are read as code page
437."""


class SetTask(RowTask):
    """The base class of sets whose questions are in one file of the folder or zip `path`, or of the
    data set `hub` of the Hugging Face hub at the commit `revision`.

    A subclass is a frozen dataclass with its settings as fields. It names the file in `_file`, the
    zip that may contain it in `_zip_name` and the files to download in `_patterns`, and defines
    `_cells`, `_questions` and `_pictures`. `errata` are known errors of the release, `note` is what
    tables state about the set.
    """

    path: Path | None
    revision: str = ""
    scorer: Scorer | None
    split: ClassVar[str] = "test"
    errata: ClassVar[tuple[str, ...]] = ()
    note: ClassVar[str] = ""
    _file: ClassVar[str] = ""
    _zip_name: ClassVar[str] = ""
    _patterns: ClassVar[tuple[str, ...]] = ("*",)

    @property
    def facts(self) -> Facts:
        """The facts about the set, the SHA-256 of its file, and what was left out."""
        self._usable_questions  # noqa: B018  determines what is left out
        return Facts(
            self.split,
            f"as in the file, sha256 {self._sha[:12]}",
            self.errata,
            self.note,
            self._location[1] or f"sha256 {self._sha}",
            self._left_out.sentences,
            self.scorer or {},
        )

    @cached_property
    def _location(self) -> DataLocation:
        return locate_data(self.path, self.hub, self.revision, self._patterns)

    @cached_property
    def _root(self) -> Path:
        """The folder or zip of the set."""
        packed = self._location[0] / self._zip_name
        return packed if self._zip_name and packed.is_file() else self._location[0]

    @cached_property
    def _files(self) -> Files:
        return open_files(self._root)

    @cached_property
    def _file_path(self) -> PurePosixPath:
        """The path of the questions' file. Raises TaskError."""
        found = next(self._files.find_by_suffix(self._file), None)
        if found is None:
            raise TaskError(
                f"{self._root} has no file {self._file}; set `path` to the folder or zip of the set"
            )
        return PurePosixPath(found)

    @cached_property
    def _data(self) -> bytes:
        """The content of the questions' file."""
        return self._files.read(str(self._file_path))

    @cached_property
    def _sha(self) -> str:
        return hashlib.sha256(self._data).hexdigest()

    def _open(self, name: str) -> Picture:
        """Open an image whose path is relative to the folder of the questions' file."""
        return open_picture(self._files, str(self._file_path.parent / name))

    def _read_json(self, kind: type) -> Any:
        """Parse the JSON file. Raises TaskError if its value is not of the type `kind`."""
        try:
            value = read_json(self._data, None)
        except ValueError as exc:
            raise TaskError(f"{self._file_path} is not JSON: {exc}") from exc
        if not isinstance(value, kind):
            wanted = "a list" if kind is list else "an object"
            raise TaskError(f"{self._file_path} must be {wanted}, found {type(value).__name__}")
        return value


class ListedTask(SetTask):
    """The base class of sets whose file is a JSON list with an object for each question."""

    def _cells(self) -> Iterator[tuple[int, Any]]:
        yield from enumerate(self._read_json(list))


def get_text(cells: Any, name: str) -> str:
    """Return a required text field of an object. Raises ValueError if it is missing or empty."""
    value = cells.get(name) if isinstance(cells, Mapping) else None
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"`{name}` must be a non-empty string, found {value!r:.80}")
    return value


def get_options(cells: Mapping[str, Any], name: str = "options") -> tuple[str, ...]:
    """Return the options of an object. Raises ValueError if there are fewer than two."""
    listed = as_list(cells.get(name))
    if len(listed) < 2:
        found = cells.get(name)
        raise ValueError(f"`{name}` must be a list of two or more options, found {found!r:.80}")
    return tuple(map(str, listed))


def get_letter(number: Any, count: int) -> str:
    """Return the letter of an option, given its number from 0. Raises ValueError for any other
    number."""
    place = int(number) if str(number).removesuffix(".0").isdecimal() else -1
    if not 0 <= place < count:
        raise ValueError(f"the answer must be a number from 0 to {count - 1}, found {number!r:.80}")
    return chr(ord("A") + place)


def map_names(files: Files) -> Mapping[str, str]:
    """Map file names, without folders, to the paths of the entries of a zip or files of a folder.

    Names are normalized (NFC). Names of zip entries without the UTF-8 flag are decoded both as code
    page 437 and as UTF-8.
    """
    by_name = dict[str, str]()
    if not isinstance(files, ZipFiles):
        paths = (path.relative_to(files.root) for path in files.root.rglob("*") if path.is_file())
        return {unicodedata.normalize("NFC", path.name): path.as_posix() for path in paths}
    for name, entry in files.names.items():
        spellings = [name]
        if not entry.flag_bits & UTF8_NAME_FLAG:
            spellings += _respell(name)
        for spelling in spellings:
            key = unicodedata.normalize("NFC", PurePosixPath(spelling).name)
            by_name.setdefault(key, name)
    return by_name


def _respell(name: str) -> Iterator[str]:
    try:
        yield name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return
