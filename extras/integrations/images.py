"""The images that external programs use with looktwice's tools: opened from files in allowed
folders, or from data URLs. Results of tools are written to files, too.

A `.json` file next to every result records which part of which picture it shows, so that a server
may be started anew for each call. An image's number is only a short name for its file.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from looktwice.extras.integrations.protocols.questions import MAX_BYTES, read_data_url
from looktwice.pipelines.config.paths import OutsideError, Scope, check_access
from looktwice.pipelines.config.spec import digest
from looktwice.pipelines.disk import read_file, write_file
from looktwice.pipelines.json_input import read_as, write_json
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import Part, View
from looktwice.prompting.coordinates import ToolError

MAX_PATH_LENGTH = 4096
ADDRESS_PATTERN = re.compile(r"\w[\w+.-]+:")  # file:, http:, but not C:


@dataclass(frozen=True)
class Origin:
    """The note next to a tool's result: the files that the result shows (`sources`), and which
    `parts` of them.

    `apart` marks the result of a control: its pixels are not the ones that `parts` describe, so
    specialists look at the file itself instead of its sources.
    """

    sources: tuple[str, ...]
    parts: tuple[Part, ...]
    apart: bool = False


@dataclass(frozen=True, eq=False)
class OpenedImage:
    """A file as tools receive it: its view, whose parts refer to pictures among `sources`.
    `is_control` is True for the result of a control."""

    number: int
    file: Path
    view: View
    sources: tuple[tuple[Path, Picture], ...]
    is_control: bool = False


@dataclass(eq=False)
class Images:
    """The images of a server by their numbers: files in the `allowed_folders`, and the files
    written to `out`, which can be read, too. Paths are relative to `folder`."""

    out: Path
    allowed_folders: tuple[Path, ...]
    folder: Path = field(default_factory=Path.cwd)

    def __post_init__(self) -> None:
        self.files, self.lock = list[Path](), threading.Lock()

    def assign_number(self, file: Path) -> int:
        """Return the number of a file; a new file gets the next one."""
        with self.lock:
            if file not in self.files:
                self.files.append(file)
            return 1 + self.files.index(file)

    def open(self, name: Any) -> OpenedImage:
        """Open the image that `name` gives by its number (0 is the last one), its path or a data
        URL. Raises ToolError."""
        if isinstance(name, str) and name.strip().isdecimal():
            name = int(name)
        if isinstance(name, int) and not isinstance(name, bool):
            count = len(self.files)
            if not 1 <= (number := name or count) <= count:
                there = f"there are 1 to {count}" if count else "there are none yet"
                raise ToolError(f"there is no image {name}; {there}; give the path of a file")
            name = str(self.files[number - 1])
        elif not isinstance(name, str):
            raise ToolError(f"an image is a number, a path or a data URL, found {name!r:.60}")
        file = self._write_url(name) if name.startswith("data:") else self.find(name)
        picture, note = self._read(file), file.with_suffix(".json")
        whole = OpenedImage(self.assign_number(file), file, View.of(picture), ((file, picture),))
        if not (file.is_relative_to(self.out) and note.is_file()):
            return whole
        origin: Origin = read_as(Origin, read_file(note))
        files = map(self.find, origin.sources)
        sources = tuple((source, self._read(source)) for source in files)
        if any(part.source >= len(sources) for part in origin.parts):
            raise ToolError(f"{note} names a source that does not exist")
        shown = View(picture, origin.parts)
        return replace(whole, view=shown, sources=sources, is_control=origin.apart)

    def find(self, text: str) -> Path:
        """Return the file at the path `text`, with links resolved. Raises ToolError for a path
        outside the folders, whether the file exists or not."""
        if ADDRESS_PATTERN.match(text):
            raise ToolError(
                f"{text[:60]!r} is not a path; nothing is fetched: give the path of a file, or"
                " data:image/...;base64,..."
            )
        if len(text) > MAX_PATH_LENGTH or "\0" in text:
            raise ToolError(f"this is not the path of a file: {text[:60]!r} ...")
        real, roots = (self.folder / text).resolve(), (*self.allowed_folders, self.out)
        try:
            check_access(text, real, roots, Scope())
        except OutsideError:
            raise ToolError(
                f"{text!r} lies outside of {', '.join(map(str, roots))}{self._suggest_path(text)};"
                f" paths are relative to {self.folder}; this server's owner may --allow more"
            ) from None
        if not real.is_file():
            raise ToolError(f"there is no file {text!r}; paths are relative to {self.folder}")
        return real

    def _suggest_path(self, text: str) -> str:
        """Suggest a path within an allowed folder, in case `text` is relative to the wrong
        folder."""
        places = ((root / text).resolve() for root in self.allowed_folders)
        inside = [path for path in places if any(map(path.is_relative_to, self.allowed_folders))]
        meant = next((path for path in inside if path.is_file()), None)
        if meant is not None:
            return f"; did you mean {meant}?"
        return f", and there is no {inside[0]}" if inside else ""

    def keep(self, view: View, sources: Sequence[Path], stem: str, apart: bool = False) -> Path:
        """Write a view to a file, with a note of its source region. Raises OSError."""
        sent = view.picture.payload
        origin = asdict(Origin(tuple(map(str, sources)), view.parts, apart))
        name = f"{stem}-{digest([sent.sha, origin])[:8]}"
        file = self.out / f"{name}.{sent.media_type.removeprefix('image/')}"
        write_file(file.with_suffix(".json"), write_json(origin))
        write_file(file, sent.data)
        return file

    def _write_url(self, url: str) -> Path:
        """Write a picture from a data URL to a file. Raises ToolError and PictureError."""
        if len(url) > MAX_BYTES:
            raise ToolError(f"a data URL has at most {MAX_BYTES:,} characters, found {len(url):,}")
        sent = read_data_url(url).payload
        file = self.out / f"sent-{sent.sha[:8]}.{sent.media_type.removeprefix('image/')}"
        write_file(file, sent.data)
        return file

    def _read(self, file: Path) -> Picture:
        picture = Picture.encoded(read_file(file), file.name)
        picture.payload  # noqa: B018  # raises PictureError here if it is not an image
        return picture
