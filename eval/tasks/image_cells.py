"""Table cells that hold images, and the columns with such cells."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from looktwice.eval.tasks.cells import Row, as_list
from looktwice.eval.tasks.files import Files, open_picture
from looktwice.pipelines.json_input import read_literal
from looktwice.pipelines.picture import Picture, PictureError

MAX_PATH_LENGTH = 1024  # characters; a longer text is an encoded image


def find_numbered_columns(stems: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns whose names consist of one of the space-separated stems and a number
    (`image_2`, `images.0`, `image_2_path`), in the order of the numbers.

    A column named by the stem alone comes before a number 2, and before the `image.1` that pandas
    makes of a second `image`.
    """
    available = [*names]
    for stem, ending in ((s, e) for e in ("", "[ _]?(?:path|file)") for s in stems.split()):
        pattern = re.compile(rf"{stem}([ _./#\[-]{{,2}})(\d{{1,4}})\]?{ending}", re.I)
        matches = [match for match in map(pattern.fullmatch, available) if match]
        by_number = {int(match[2]): match[0] for match in matches}
        plain = [name for name in available if name.casefold() == stem]
        first = min(by_number, default=0)
        if plain and (first == 2 or (first == 1 and matches[0][1] == ".")):
            by_number[first - 1] = plain[0]
        if by_number:
            return tuple(by_number[number] for number in sorted(by_number))
    return ()


SEPARATORS_PATTERN = re.compile(r"\s*[;,|\n]\s*")
FILE_NAME_PATTERN = re.compile(r"[^'\"{}]*\.[A-Za-z]\w{1,4}")


def list_image_cells(row: Row, columns: Sequence[str]) -> list[Any]:
    """Return every image of a row, column by column."""
    return [image for name in columns for image in _list_images(row.get(name))]


def _list_images(cell: Any) -> Iterator[Any]:
    """Yield the images in a cell: a single image, a list, {"image_1": ..., "image_2": ...}, or
    paths separated by commas, semicolons, bars or line breaks."""
    if isinstance(cell, str) and cell.lstrip().startswith("{"):
        parsed = read_literal(cell)
        cell = parsed if isinstance(parsed, Mapping) else cell
    if isinstance(cell, Mapping) and (numbered := find_numbered_columns("image images img", cell)):
        cell = [cell[name] for name in numbered]
    cells = as_list(cell)
    if len(cells) != 1 or cells[0] is not cell:
        for inner in cells:
            yield from _list_images(inner)
    elif isinstance(cell, str) and len(cell) < MAX_PATH_LENGTH:
        paths = SEPARATORS_PATTERN.split(cell.strip("[] \n"))
        yield from (
            paths if len(paths) > 1 and all(map(FILE_NAME_PATTERN.fullmatch, paths)) else [cell]
        )
    else:
        yield cell


def is_path(cell: Any) -> bool:
    """Return whether a cell is the path of an image file rather than an image: base64 has no full
    stop."""
    if not isinstance(cell, str) or not len(cell) < MAX_PATH_LENGTH or cell.startswith("data:"):
        return False
    return "." in PurePosixPath(cell.replace("\\", "/")).name


def read_picture_cell(cell: Any, name: str, files: Files | None) -> Picture:
    """Return the picture of an image cell: bytes, a hub's {bytes, path}, a path in `files`, a data
    URL or base64.

    Anything else gives a picture that raises PictureError when it is read; `name` is part of the
    message.
    """
    if isinstance(cell, Mapping):
        return read_picture_cell(cell.get("bytes") or cell.get("path"), name, files)
    if isinstance(cell, bytes):
        return Picture.encoded(cell, name)
    if not isinstance(cell, str) or not cell:
        return make_broken_picture(name, f"no image in the cell, found {type(cell).__name__}")
    if cell.startswith(("http://", "https://")):
        return make_broken_picture(
            name, f"{cell[:200]!r} is a URL; download the image and give the path of its file"
        )
    if is_path(cell):
        if files is None:
            return make_broken_picture(name, f"{cell!r} is a path; set `images` to its folder")
        return open_picture(files, cell)

    def decode() -> bytes:
        data = cell.partition(",")[2] if cell.startswith("data:") else cell
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except ValueError as exc:
            raise PictureError(f"{name}: neither a path nor base64 ({exc}): {cell[:40]!r}") from exc

    return Picture.lazy(decode, name)


def make_broken_picture(name: str, why: str) -> Picture:
    """Return a picture that raises PictureError with this reason when it is read."""

    def fetch() -> bytes:
        raise PictureError(f"{name}: {why}")

    return Picture.lazy(fetch, name, lambda: False)
