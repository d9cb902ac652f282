"""The images that programs of others look at with our tools: opened from files below folders that
were allowed, or from data URLs; what a tool makes of them is a file again.

Beside every made file lies a `.json` that says which part of which picture it shows. So a server
that is started anew for each call knows as much as one that lives on, and a number is no more than
a short name of a file.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from looktwice.extras.integrations.chat_requests import MOST_BYTES, read_data_url
from looktwice.pipelines.config.paths import OutsideError, Scope, pass_fence
from looktwice.pipelines.config.spec import digest
from looktwice.pipelines.disk import read_file, write_file
from looktwice.pipelines.json_input import read_as, write_json
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import Part, View
from looktwice.prompting.coordinates import ToolError

LONGEST_PATH = 4096
ADDRESS = re.compile(r"\w[\w+.-]+:")  # file:, http:, but not C:


@dataclass(frozen=True)
class Origin:
    """What lies beside a made file: the files that it shows, and where (`parts`).

    A control is made with `apart`: its pixels are not those that `parts` tell of, so specialists
    look at the file itself and not at its sources.
    """

    sources: tuple[str, ...]
    parts: tuple[Part, ...]
    apart: bool = False


@dataclass(frozen=True, eq=False)
class OpenedImage:
    """A file as tools get it: its view, whose parts name pictures among `sources`."""

    number: int
    file: Path
    view: View
    sources: tuple[tuple[Path, Picture], ...]
    apart: bool = False


@dataclass(eq=False)
class Images:
    """Images by number: files below the folders `allowed`, and those written into `out`, which is
    readable too. Paths count from `folder`."""

    out: Path
    allowed: tuple[Path, ...]
    folder: Path = field(default_factory=Path.cwd)

    def __post_init__(self) -> None:
        self.files, self.lock = list[Path](), threading.Lock()

    def number(self, file: Path) -> int:
        """The number of a file, a new one if it has none."""
        with self.lock:
            if file not in self.files:
                self.files.append(file)
            return 1 + self.files.index(file)

    def open(self, name: Any) -> OpenedImage:
        """The image of a number (0 is the last one), a path or a data URL. Raises ToolError."""
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
        whole = OpenedImage(self.number(file), file, View.of(picture), ((file, picture),))
        if not (file.is_relative_to(self.out) and note.is_file()):
            return whole
        origin: Origin = read_as(Origin, read_file(note))
        files = map(self.find, origin.sources)
        sources = tuple((source, self._read(source)) for source in files)
        if any(part.source >= len(sources) for part in origin.parts):
            raise ToolError(f"{note} names a source that is not there")
        shown = View(picture, origin.parts)
        return replace(whole, view=shown, sources=sources, apart=origin.apart)

    def find(self, text: str) -> Path:
        """The file of a path, links followed. Raises ToolError outside of the folders, whether it
        is there or not."""
        if ADDRESS.match(text):
            raise ToolError(
                f"{text[:60]!r} is no path; nothing is fetched: give the path of a file, or"
                " data:image/...;base64,..."
            )
        if len(text) > LONGEST_PATH or "\0" in text:
            raise ToolError(f"this is no path of a file: {text[:60]!r} ...")
        real, roots = (self.folder / text).resolve(), (*self.allowed, self.out)
        try:
            pass_fence(text, real, roots, Scope())
        except OutsideError:
            raise ToolError(
                f"{text!r} lies outside of {', '.join(map(str, roots))}{self._say_inside(text)};"
                f" paths count from {self.folder}, and who started this server may --allow more"
            ) from None
        if not real.is_file():
            raise ToolError(f"there is no file {text!r}; paths count from {self.folder}")
        return real

    def _say_inside(self, text: str) -> str:
        """What is told of a path that counts from the wrong folder: its place in an allowed one."""
        places = ((root / text).resolve() for root in self.allowed)
        inside = [path for path in places if any(map(path.is_relative_to, self.allowed))]
        meant = next((path for path in inside if path.is_file()), None)
        if meant is not None:
            return f"; did you mean {meant}?"
        return f", and there is no {inside[0]}" if inside else ""

    def keep(self, view: View, sources: Sequence[Path], stem: str, apart: bool = False) -> Path:
        """Write a view as a file, with a note of what it shows. Raises OSError."""
        sent = view.picture.payload
        origin = asdict(Origin(tuple(map(str, sources)), view.parts, apart))
        name = f"{stem}-{digest([sent.sha, origin])[:8]}"
        file = self.out / f"{name}.{sent.media_type.removeprefix('image/')}"
        write_file(file.with_suffix(".json"), write_json(origin))
        write_file(file, sent.data)
        return file

    def _write_url(self, url: str) -> Path:
        """The file of a picture that was sent. Raises ToolError and PictureError."""
        if len(url) > MOST_BYTES:
            raise ToolError(f"a data URL has at most {MOST_BYTES:,} characters, found {len(url):,}")
        sent = read_data_url(url).payload
        file = self.out / f"sent-{sent.sha[:8]}.{sent.media_type.removeprefix('image/')}"
        write_file(file, sent.data)
        return file

    def _read(self, file: Path) -> Picture:
        picture = Picture.encoded(read_file(file), file.name)
        picture.payload  # noqa: B018  # raises PictureError here for what is no image
        return picture
