"""Parses table cells into images, choices and answers."""

from __future__ import annotations

import ast
import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from looktwice.eval.tasks.files import Files, open_picture
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.picture import Picture, PictureError

HIDDEN = ("hidden", "nan", "none", "")
"""The contents of an answer cell whose key is hidden."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")


def is_empty(cell: Any) -> bool:
    """Whether a cell is empty: None, NaN, or text without characters."""
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def as_text(cell: Any) -> str:
    """A cell as text; whole numbers stored as floats are written without a decimal point."""
    if is_empty(cell):
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def as_list(cell: Any) -> list[Any]:
    """A cell that may hold a list: a list itself, a list written as text (JSON or Python), or one
    value."""
    if is_empty(cell):
        return []
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        for parse in (read_json, ast.literal_eval):
            try:
                parsed = parse(cell)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(parsed, list):
                return parsed
        return [cell]
    return list(cell) if isinstance(cell, list | tuple) else [cell]


def image_cells(row: Mapping[str, Any], columns: Sequence[str]) -> list[Any]:
    """Every image of a row, column by column."""
    return [cell for name in columns for cell in as_list(row.get(name)) if not is_empty(cell)]


def is_path(cell: Any) -> bool:
    """Whether a cell is the path of an image file, and not an image itself."""
    return isinstance(cell, str) and cell.lower().endswith(SUFFIXES) and len(cell) < 1024


def picture_from_cell(cell: Any, name: str, files: Files | None) -> Picture:
    """An image cell: bytes, a hub's {bytes, path}, a path in `files`, a data URL or base64.

    Anything else gives a picture that raises PictureError when it is read; `name` is part of the
    message.
    """
    if isinstance(cell, Mapping):
        inner = cell.get("bytes")
        return picture_from_cell(inner if inner else cell.get("path"), name, files)
    if isinstance(cell, bytes):
        return Picture.encoded(cell, name)
    if not isinstance(cell, str) or not cell:
        return broken_picture(name, f"no image in the cell, found {type(cell).__name__}")
    if is_path(cell):
        return (
            open_picture(files, cell)
            if files is not None
            else broken_picture(name, f"{cell!r} is a path; say `images`")
        )
    return Picture.lazy(lambda: _decode_base64(cell, name), name)


def broken_picture(name: str, why: str) -> Picture:
    """A picture that raises PictureError with this reason when it is read."""

    def fetch() -> bytes:
        raise PictureError(f"{name}: {why}")

    return Picture.lazy(fetch, name)


def _decode_base64(cell: str, name: str) -> bytes:
    data = cell.partition(",")[2] if cell.startswith("data:") else cell
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise PictureError(f"{name}: neither a path nor base64 ({exc}): {cell[:40]!r}") from exc


def choice_texts(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    """The choices of a row, from one column with a list or one column each; empty cells at the end
    are dropped."""
    texts = [as_text(cell) for name in columns for cell in as_list(row.get(name)) or [""]]
    while texts and not texts[-1]:
        texts.pop()
    return tuple(texts)


def answer_key(cell: Any, choices: Sequence[str], first: int | None = None) -> str | None:
    """The answer of a row: a letter if there are choices, otherwise its text; None if it is hidden.

    With choices it may be written as a letter ("B", "(b)", "B."), as the text of the choice, or, if
    `first` is 0 or 1, as a number that counts from there. Raises ValueError for anything else.
    """
    text = as_text(cell).strip()
    if text.casefold() in HIDDEN and text not in choices:
        return None
    if not choices:
        return text
    if first is not None:
        number = int(text) - first if text.isdecimal() else -1
        if 0 <= number < len(choices):
            return ascii_uppercase[number]
        raise ValueError(
            f"the answer {text!r} is not a number from {first} to {first + len(choices) - 1}"
        )
    return find_letter(text, text.strip("().: ").upper(), choices)


def find_letter(text: str, bare: str, choices: Sequence[object]) -> str:
    """The letter of the choice that is meant by the letter `bare` or by its whole `text`.

    Raises ValueError where that is none of them, or not one alone.
    """
    letters = ascii_uppercase[: len(choices)]
    meant = {letter for letter, choice in zip(letters, choices, strict=True) if choice == text}
    meant |= {bare} & {*letters}
    if len(meant) > 1:
        raise ValueError(
            f"the answer {text!r} is a letter and the text of another choice; write it as ({text})"
        )
    if not meant:
        texts = [choice for choice in choices if isinstance(choice, str)]
        raise ValueError(
            f"the answer {text!r} is none of the letters {', '.join(letters)} and none of the texts"
            f" {texts}"
        )
    return meant.pop()
