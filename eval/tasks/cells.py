"""The cells of a table as images, choices and answers."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePosixPath
from string import ascii_uppercase
from typing import Any

from looktwice.eval.tasks.files import Files, open_picture
from looktwice.pipelines.config.classes import did_you_mean
from looktwice.pipelines.json_input import read_literal
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
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


LITERALS = ("[", "array(", "np.", "numpy.", "('", '("')
"""What begins a list that is written as text."""


def as_list(cell: Any) -> list[Any]:
    """A cell that may hold a list: a list itself, one written as text (JSON, Python, or as numpy
    prints arrays), or one value."""
    if is_empty(cell):
        return []
    if isinstance(cell, str) and cell.lstrip().startswith(LITERALS):
        parsed = read_literal(cell)
        return [*parsed] if isinstance(parsed, list | tuple) else [parsed or cell]
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    return list(cell) if isinstance(cell, list | tuple) else [cell]


LABELS = ("label", "labels", "letter", "key", "keys", "id", "option_label", "option", "index")
TEXTS = ("text", "texts", "content", "value", "values", "option_text", "choice", "option", "answer")
"""The names of the labels and of the texts of choices, the likeliest first."""
LABEL = re.compile(r"(?:options?|choices?)?[\s_-]*[(\[]?([a-z]|\d{1,2})[)\].:]*\s*", re.I)


def as_options(cell: Any) -> list[Any]:
    """A cell that holds options: a list of them, {"A": text, "B": text}, {"label": [...], "text":
    [...]}, a list of {"label", "text"}, of {"A": text} or of ("A", text), also written as text.

    Raises ValueError for labels that are not A, B ... or 1, 2 ... or 0, 1 ....
    """
    if isinstance(cell, str) and cell.lstrip().startswith(("{", "OrderedDict(")):
        parsed = read_literal(cell)
        cell = parsed if isinstance(parsed, Mapping) else cell
    if isinstance(cell, Mapping):
        filled = {key: text for key, text in cell.items() if not is_empty(text)}
        lists = {key: as_list(v) for key, v in filled.items() if not isinstance(v, str | Mapping)}
        if lists.keys() == filled.keys() and len({*map(len, lists.values())}) == 1:
            if len(lists) == 1:
                return as_options(*filled.values())
            if any(isinstance(v, list | tuple) or hasattr(v, "tolist") for v in filled.values()):
                return _from_columns(lists)
        return _in_order(filled)
    options = as_list(cell)
    if options and all(isinstance(option, Mapping) for option in options):
        return _from_objects(options)
    return _in_order(dict(options)) if _are_pairs(options) else options


def _from_objects(options: Sequence[Mapping[Any, Any]]) -> list[Any]:
    """The texts of options that are an object each. Raises ValueError."""
    keys = [*dict.fromkeys(key for option in options for key in option)]
    own = len(keys) == len(options) and all(len(option) == 1 for option in options)
    if own and _are_labels([*map(_label, keys)]):
        return _in_order({key: text for option in options for key, text in option.items()})
    columns = {key: [option.get(key) for option in options] for key in keys}
    if len(columns) == 1:
        return columns[keys[0]] if keys[0] in TEXTS else [*options]
    return _from_columns(columns)


def _from_columns(columns: Mapping[Any, list[Any]]) -> list[Any]:
    """The texts of options whose labels, texts and whatever else are a list each. Raises
    ValueError."""
    labelled = [key for key, cells in columns.items() if _are_labels([*map(_label, cells)])]
    named = [*filter(labelled.__contains__, LABELS), *labelled]
    if not named and (wrong := [key for key in LABELS if key in columns and key not in TEXTS]):
        found = ", ".join(map(as_text, columns[wrong[0]]))
        raise ValueError(f"the labels of choices are A, B ..., found {found}")
    others = [key for key in columns if key not in named[:1]]
    texts = [*filter(others.__contains__, TEXTS)] or (others if len(others) == 1 else [])
    if not texts:
        found = ", ".join(map(str, columns))
        raise ValueError(f"choices need a label and a text each, found {found}")
    labels = columns[named[0]] if named else [*range(len(columns[texts[0]]))]
    return _in_order(dict(zip(labels, columns[texts[0]], strict=True)))


def _are_pairs(options: Sequence[Any]) -> bool:
    """Whether these are pairs of a letter and a text, as maps of parquet are."""
    if len(options) < 2 or not all(isinstance(o, list | tuple) and len(o) == 2 for o in options):
        return False
    letters, texts = ([*map(_label, part)] for part in zip(*options, strict=True))
    return letters == [*ascii_uppercase[: len(letters)]] and not _are_labels(texts)


def _label(cell: Any) -> str:
    """A label in capitals, without what stands around it."""
    text = as_text(cell).strip()
    found = LABEL.fullmatch(text)
    return (found[1] if found else text).upper()


def _are_labels(labels: Sequence[str]) -> bool:
    """Whether these are A, B ..., or numbers from 0 or 1, in any order."""
    counted = [[str(number + first) for number in range(len(labels))] for first in (0, 1)]
    return sorted(labels) in (
        [*ascii_uppercase[: len(labels)]],
        *(sorted(numbers) for numbers in counted),
    )


def _in_order(labelled: Mapping[Any, Any]) -> list[Any]:
    """The texts of options in the order of their labels. Raises ValueError."""
    by_label = {_label(label): text for label, text in labelled.items()}
    if len(by_label) < len(labelled) or not _are_labels([*by_label]):
        raise ValueError(f"the labels of choices are A, B ..., found {', '.join(by_label)}")
    return [by_label[label] for label in sorted(by_label, key=lambda name: (len(name), name))]


def numbered_columns(stems: str, names: Iterable[str]) -> tuple[str, ...]:
    """The columns that are one of the stems, parted by spaces, with a number (`image_2`,
    `images.0`, `image_2_path`), in the order of their numbers.

    A column of the stem alone comes before a number 2, and before the `image.1` that pandas makes
    of a second `image`.
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


def lettered_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The columns of choices with a letter each: A, B ..., or `choice_a`, `Option B` and their
    like, up to the first letter that has none."""
    available = [*names]
    for stem in ("", "choices?", "options?"):
        pattern = re.compile(rf"{stem}[ _./-]?([a-z])", re.I)
        matches = [match for match in map(pattern.fullmatch, available) if match]
        by_letter = {match[1].upper(): match[0] for match in matches if stem or match[0].isupper()}
        found = tuple(takewhile(bool, map(by_letter.get, ascii_uppercase)))
        if len(found) > 1:
            return tuple(filter(None, found))
    return ()


SEPARATORS = re.compile(r"\s*[;,|\n]\s*")
FILE_NAME = re.compile(r"[^'\"{}]*\.[A-Za-z]\w{1,4}")


def image_cells(row: Row, columns: Sequence[str]) -> list[Any]:
    """Every image of a row, column by column."""
    return [image for name in columns for image in _images(row.get(name))]


def _images(cell: Any) -> Iterator[Any]:
    """The images in a cell: one, a list, {"image_1": ..., "image_2": ...}, or paths with commas,
    semicolons, bars or line breaks between them."""
    if isinstance(cell, str) and cell.lstrip().startswith("{"):
        parsed = read_literal(cell)
        cell = parsed if isinstance(parsed, Mapping) else cell
    if isinstance(cell, Mapping) and (numbered := numbered_columns("image images img", cell)):
        cell = [cell[name] for name in numbered]
    cells = as_list(cell)
    if len(cells) != 1 or cells[0] is not cell:
        for inner in cells:
            yield from _images(inner)
    elif isinstance(cell, str) and len(cell) < LONGEST_PATH:
        paths = SEPARATORS.split(cell.strip("[] \n"))
        yield from paths if len(paths) > 1 and all(map(FILE_NAME.fullmatch, paths)) else [cell]
    else:
        yield cell


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
    are dropped. Raises ValueError."""
    if len(columns) == 1:
        cells = as_options(row.get(columns[0])) or [""]
    else:  # "[0, 1]" is one choice there, an interval
        cells = [row.get(name) for name in columns]
    if objects := [cell for cell in cells if isinstance(cell, Mapping)]:
        raise ValueError(f"a choice is a text or a number, found {objects[0]!r:.80}")
    texts = [*map(as_text, cells)]
    blank = ("", "nan") if len(columns) > 1 else ("",)  # as pandas writes an empty cell
    while texts and texts[-1] in blank:
        texts.pop()
    return tuple(texts)


LETTERED = (
    r"(?:^|\s)\(?([A-Za-z])[).]\s",
    r"(?:^|[\s,;])(?:\*\*)?[(\[]?([A-Z])[)\].:]+(?:\*\*)?\s",
    r"(?:^|\n)[(\[]([A-Z])[)\]]",
)
"""How letters stand before choices; a later form is looked for where none before it fits."""


def split_lettered(text: str) -> tuple[str, tuple[str, ...]]:
    """What stands before the lettered choices of a text, and these: "(A) red (B) blue", or lines as
    "A. red".

    The last ends with its line. Where the letters are not A, B ... in their order, the one choice
    is the text itself.
    """
    for form in LETTERED:
        before, *parts = re.split(form, text)
        letters, choices = parts[::2], [choice.strip() for choice in parts[1::2]]
        if len(letters) > 1 and "".join(letters).upper() == ascii_uppercase[: len(letters)]:
            choices[-1] = choices[-1].partition("\n")[0].strip()
            if all(choice.endswith(",") for choice in choices[:-1]):
                choices = [choice.removesuffix(",") for choice in choices]
            return before.strip(), tuple(choices)
    return text, (text,)


def answer_key(cell: Any, choices: Sequence[str], first: int | None = None) -> str | None:
    """The answer of a row: a letter if there are choices, otherwise its text; None if it is hidden.

    With choices it may be written as a letter ("B", "(b)", "B."), as the text of the choice, as
    both ("B. blue"), as a list of one of these, or, if `first` is 0 or 1, as a number that counts
    from there. Raises ValueError for anything else.
    """
    answers = [cell] if as_text(cell).strip() in choices else as_list(cell)
    if choices and len(answers) > 1:
        raise ValueError(f"a row has one answer, found {answers}")
    text = as_text((answers or [None])[0] if choices else cell).strip()
    if text.casefold() in HIDDEN and text not in choices:
        return None
    if not choices:
        return text
    if first is not None:
        counted = re.fullmatch(r"(\d+)(?:\.0+)?", text)
        number = int(counted[1]) - first if counted else -1
        if 0 <= number < len(choices):
            return ascii_uppercase[number]
        raise ValueError(
            f"the answer {text!r} is not a number from {first} to {first + len(choices) - 1}"
        )
    return find_letter(text, text.strip("().: ").upper(), choices)


WITH_TEXT = re.compile(r"[(\[]?([A-Za-z])[)\].:\s-]+(.+)", re.S)
WRAPPED = re.compile(
    r"[\s([{<\"*`]*(?:(?:answer|option|choice)\b(?:\s+is\b)?)?[\s([{<\"*`:]*([A-Za-z])[\s)\]}>\"*`.:]*"
    r"|'([A-Za-z])'",
    re.I,
)
"""A letter with its choice's text, and one in brackets, quotes or words."""


def find_letter(text: str, bare: str, choices: Sequence[object]) -> str:
    """The letter of the choice that is meant by the letter `bare`, by its whole `text`, or by both
    ("B. blue").

    Raises ValueError where that is none of them, or not one alone.
    """
    letters = ascii_uppercase[: len(choices)]
    texts = [str(choice).strip() for choice in choices]
    meant = {letter for letter, choice in zip(letters, texts, strict=True) if choice == text}
    meant |= {bare} & {*letters}
    if not meant and (both := WITH_TEXT.fullmatch(text)):
        by_letter = dict(zip(letters, map(str.casefold, texts), strict=True))
        said = both[2].strip().casefold()
        meant = {both[1].upper()} if by_letter.get(both[1].upper()) == said else set()
    if not meant and (wrapped := WRAPPED.fullmatch(text)):
        meant = {(wrapped[1] or wrapped[2]).upper()} & {*letters}
    if not meant and (number := _number(text)) is not None:
        meant = {letters[n] for n, choice in enumerate(texts) if _number(choice) == number}
    if len(meant) > 1:
        raise ValueError(
            f"the answer {text!r} is a letter and the text of another choice; write it as ({text})"
        )
    if not meant:
        named = [choice for choice in choices if isinstance(choice, str)]
        hint = did_you_mean(text, (*named, *letters))
        raise ValueError(
            f"the answer {text!r} is none of the letters {', '.join(letters)} and none of the texts"
            f" {named}{hint}"
        )
    return meant.pop()


def _number(text: str) -> float | None:
    """A plain decimal number; None for any other text."""
    return float(text) if re.fullmatch(r"-?\d+(?:\.\d*)?", text) else None
