"""The cells of a table as images, choices and answers."""

from __future__ import annotations

import ast
import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from string import ascii_uppercase
from typing import Any

from looktwice.eval.tasks.files import Files, open_picture
from looktwice.pipelines.config.classes import did_you_mean
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.picture import Picture, PictureError

Row = Mapping[str, Any]
"""The cells of a row of a table, by column."""

LONGEST_PATH = 1024  # characters; a longer text is an image itself
HIDDEN = ("hidden", "nan", "none", "")
"""The contents of an answer cell whose key is hidden."""


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
    """A cell that may hold a list: a list itself, one written as text (JSON, Python, or as numpy
    prints arrays), or one value."""
    if is_empty(cell):
        return []
    if isinstance(cell, str) and cell.lstrip().startswith(("[", "array([", "('", '("')):
        parsed = _parse_list(cell.strip())
        return [cell] if parsed is None else parsed
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    return list(cell) if isinstance(cell, list | tuple) else [cell]


QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
SPACED_TEXTS = re.compile(rf"\[\s*(?:(?:{QUOTED})\s+)+(?:{QUOTED})\s*\]")
SPACED_NUMBERS = re.compile(r"\[\s*(?:-?[\d.]+(?:e[+-]?\d+)?\s+)+-?[\d.]+(?:e[+-]?\d+)?\s*\]")


def _parse_list(text: str) -> list[Any] | None:
    """The list that a text writes; None if it writes none."""
    inner = re.fullmatch(r"array\((\[.*\])(?:,\s*dtype=[^()]*)?\)", text, re.S)
    text = inner[1] if inner else text
    if SPACED_TEXTS.fullmatch(text):  # Python would join these texts to one
        return [ast.literal_eval(quoted) for quoted in re.findall(QUOTED, text)]
    if SPACED_NUMBERS.fullmatch(text):
        return text.strip("[] \n").split()
    for parse in (read_json, ast.literal_eval):
        try:
            parsed = parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(parsed, list | tuple):
            return list(parsed)
    return None


def as_options(cell: Any) -> list[Any]:
    """A cell that holds options: a list of them, {"A": text, "B": text}, {"label": [...], "text":
    [...]}, or a list of {"label", "text"}.

    Raises ValueError for labels that are not A, B ... or 1, 2 ... or 0, 1 ....
    """
    if isinstance(cell, str) and cell.lstrip().startswith("{"):
        for parse in (read_json, ast.literal_eval):
            try:
                cell = parse(cell)
                break
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
    if isinstance(cell, Mapping):
        lists = [as_list(value) for value in cell.values() if isinstance(value, list | tuple)]
        if len(lists) == len(cell) == 2 and len(lists[0]) == len(lists[1]):
            return _in_order(dict(zip(*_labels_first(*lists), strict=True)))
        return _in_order({key: text for key, text in cell.items() if text is not None})
    options = as_list(cell)
    if options and all(isinstance(option, Mapping) and len(option) == 2 for option in options):
        columns = [list(column) for column in zip(*(o.values() for o in options), strict=True)]
        return _in_order(dict(zip(*_labels_first(*columns), strict=True)))
    return options


def _labels_first(one: list[Any], two: list[Any]) -> tuple[list[Any], list[Any]]:
    """Two lists, that of the labels first."""
    labels = [as_text(label).strip("(). ").upper() for label in one]
    return (one, two) if _are_labels(labels) else (two, one)


def _are_labels(labels: Sequence[str]) -> bool:
    """Whether these are A, B ..., or numbers from 0 or 1, in any order."""
    counted = [[str(number + first) for number in range(len(labels))] for first in (0, 1)]
    return sorted(labels) in (
        [*ascii_uppercase[: len(labels)]],
        *(sorted(numbers) for numbers in counted),
    )


def _in_order(labelled: Mapping[Any, Any]) -> list[Any]:
    """The texts of options in the order of their labels. Raises ValueError."""
    by_label = {as_text(label).strip("(). ").upper(): text for label, text in labelled.items()}
    if len(by_label) < len(labelled) or not _are_labels([*by_label]):
        raise ValueError(f"the labels of choices are A, B ..., found {', '.join(by_label)}")
    return [by_label[label] for label in sorted(by_label, key=lambda name: (len(name), name))]


def numbered_columns(stems: str, names: Iterable[str]) -> tuple[str, ...]:
    """The columns that are one of the stems, parted by spaces, with a number, in the order of
    their numbers; a column of the stem alone comes before a number 2."""
    available = [*names]
    for stem in stems.split():
        pattern = re.compile(rf"{stem}[ _-]?(\d{{1,4}})", re.I)
        matches = [match for match in map(pattern.fullmatch, available) if match]
        by_number = {int(match[1]): match[0] for match in matches}
        plain = [name for name in available if name.casefold() == stem]
        if plain and min(by_number, default=0) == 2:
            by_number[1] = plain[0]
        if by_number:
            return tuple(by_number[number] for number in sorted(by_number))
    return ()


def image_cells(row: Row, columns: Sequence[str]) -> list[Any]:
    """Every image of a row, column by column."""
    return [cell for name in columns for cell in as_list(row.get(name)) if not is_empty(cell)]


def is_path(cell: Any) -> bool:
    """Whether a cell is the path of an image file, and not an image itself: base64 has no full
    stop."""
    if not isinstance(cell, str) or not len(cell) < LONGEST_PATH or cell.startswith("data:"):
        return False
    return "." in PurePosixPath(cell.replace("\\", "/")).name


def picture_from_cell(cell: Any, name: str, files: Files | None) -> Picture:
    """An image cell: bytes, a hub's {bytes, path}, a path in `files`, a data URL or base64.

    Anything else gives a picture that raises PictureError when it is read; `name` is part of the
    message.
    """
    if isinstance(cell, Mapping):
        return picture_from_cell(cell.get("bytes") or cell.get("path"), name, files)
    if isinstance(cell, bytes):
        return Picture.encoded(cell, name)
    if not isinstance(cell, str) or not cell:
        return broken_picture(name, f"no image in the cell, found {type(cell).__name__}")
    if cell.startswith(("http://", "https://")):
        return broken_picture(
            name, f"{cell[:200]!r} is an address; fetch the image and give the path of its file"
        )
    if is_path(cell):
        if files is None:
            return broken_picture(name, f"{cell!r} is a path; say `images`")
        return open_picture(files, cell)

    def decode() -> bytes:
        data = cell.partition(",")[2] if cell.startswith("data:") else cell
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except ValueError as exc:
            raise PictureError(f"{name}: neither a path nor base64 ({exc}): {cell[:40]!r}") from exc

    return Picture.lazy(decode, name)


def broken_picture(name: str, why: str) -> Picture:
    """A picture that raises PictureError with this reason when it is read."""

    def fetch() -> bytes:
        raise PictureError(f"{name}: {why}")

    return Picture.lazy(fetch, name, lambda: False)


def choice_texts(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    """The choices of a row, from one column with a list or one column each; empty cells at the end
    are dropped."""
    texts = [as_text(cell) for name in columns for cell in as_options(row.get(name)) or [""]]
    while texts and not texts[-1]:
        texts.pop()
    return tuple(texts)


def split_lettered(text: str) -> tuple[str, tuple[str, ...]]:
    """What stands before the lettered choices of a text, and these: "(A) red (B) blue", or lines as
    "A. red".

    The last ends with its line. Where the letters are not A, B ... in their order, the one choice
    is the text itself.
    """
    before, *parts = re.split(r"(?:^|\s)\(?([A-Za-z])[).]\s", text)
    letters, choices = parts[::2], [choice.strip() for choice in parts[1::2]]
    if len(letters) < 2 or "".join(letters).upper() != ascii_uppercase[: len(letters)]:
        return text, (text,)
    choices[-1] = choices[-1].partition("\n")[0].strip()
    return before.strip(), tuple(choices)


def answer_key(cell: Any, choices: Sequence[str], first: int | None = None) -> str | None:
    """The answer of a row: a letter if there are choices, otherwise its text; None if it is hidden.

    With choices it may be written as a letter ("B", "(b)", "B."), as the text of the choice, as
    both ("B. blue"), as a list of one of these, or, if `first` is 0 or 1, as a number that counts
    from there. Raises ValueError for anything else.
    """
    answers = as_list(cell)
    if choices and len(answers) > 1:
        raise ValueError(f"a row has one answer, found {answers}")
    text = as_text(answers[0] if choices and answers else cell).strip()
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
    """The letter of the choice that is meant by the letter `bare`, by its whole `text`, or by both
    ("B. blue").

    Raises ValueError where that is none of them, or not one alone.
    """
    letters = ascii_uppercase[: len(choices)]
    meant = {letter for letter, choice in zip(letters, choices, strict=True) if choice == text}
    meant |= {bare} & {*letters}
    if not meant and (both := re.fullmatch(r"\(?([A-Za-z])[).:]\)?\s*(.+)", text, re.S)):
        letter = both[1].upper()
        if letter in letters and str(choices[letters.index(letter)]).strip() == both[2].strip():
            meant = {letter}
    if len(meant) > 1:
        raise ValueError(
            f"the answer {text!r} is a letter and the text of another choice; write it as ({text})"
        )
    if not meant:
        texts = [choice for choice in choices if isinstance(choice, str)]
        hint = did_you_mean(text, (*texts, *letters))
        raise ValueError(
            f"the answer {text!r} is none of the letters {', '.join(letters)} and none of the texts"
            f" {texts}{hint}"
        )
    return meant.pop()
