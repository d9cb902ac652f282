"""Parsing of table cells: empty cells, texts, lists, labelled choices, and the letter that an
answer means."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from looktwice.pipelines.config.classes import suggest_names
from looktwice.pipelines.json_input import read_literal

Row = Mapping[str, Any]
"""The cells of a table row, by column."""


def is_empty(cell: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or blank text."""
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def as_text(cell: Any) -> str:
    """Return a cell as text; whole numbers stored as floats are written without a decimal point."""
    if is_empty(cell):
        return ""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


LITERAL_PREFIXES = ("[", "array(", "np.", "numpy.", "('", '("')
"""Prefixes of a string that holds a list."""


def as_list(cell: Any) -> list[Any]:
    """Return a cell as a list: a list, one written as text (JSON, Python, or a printed numpy
    array), or one value."""
    if is_empty(cell):
        return []
    if isinstance(cell, str) and cell.lstrip().startswith(LITERAL_PREFIXES):
        parsed = read_literal(cell)
        return [*parsed] if isinstance(parsed, list | tuple) else [parsed or cell]
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    return list(cell) if isinstance(cell, list | tuple) else [cell]


LABEL_FIELDS = ("label", "labels", "letter", "key", "keys", "id", "option_label", "option", "index")
TEXT_FIELDS = (
    "text",
    "texts",
    "content",
    "value",
    "values",
    "option_text",
    "choice",
    "option",
    "answer",
)
"""Names of the fields that hold the labels and the texts of choices, most likely first."""
LABEL_PATTERN = re.compile(r"(?:options?|choices?)?[\s_-]*[(\[]?([a-z]|\d{1,2})[)\].:]*\s*", re.I)


def as_options(cell: Any) -> list[Any]:
    """Parse a cell of options: a list of texts, {"A": text, "B": text}, {"label": [...], "text":
    [...]}, or a list of {"label", "text"}, of {"A": text} or of ("A", text); each of these may also
    be written as a string.

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
        return _sort_texts(filled)
    options = as_list(cell)
    if options and all(isinstance(option, Mapping) for option in options):
        return _from_objects(options)
    return _sort_texts(dict(options)) if _are_pairs(options) else options


def _from_objects(options: Sequence[Mapping[Any, Any]]) -> list[Any]:
    """Return the texts of options, each of which is an object. Raises ValueError."""
    keys = [*dict.fromkeys(key for option in options for key in option)]
    own = len(keys) == len(options) and all(len(option) == 1 for option in options)
    if own and _are_labels([*map(_normalize_label, keys)]):
        return _sort_texts({key: text for option in options for key, text in option.items()})
    columns = {key: [option.get(key) for option in options] for key in keys}
    if len(columns) == 1:
        return columns[keys[0]] if keys[0] in TEXT_FIELDS else [*options]
    return _from_columns(columns)


def _from_columns(columns: Mapping[Any, list[Any]]) -> list[Any]:
    """Return the texts of options from an object with a list for each field. Raises ValueError."""
    labelled = [
        key for key, cells in columns.items() if _are_labels([*map(_normalize_label, cells)])
    ]
    named = [*filter(labelled.__contains__, LABEL_FIELDS), *labelled]
    if not named and (
        wrong := [key for key in LABEL_FIELDS if key in columns and key not in TEXT_FIELDS]
    ):
        found = ", ".join(map(as_text, columns[wrong[0]]))
        raise ValueError(f"the labels of choices must be A, B ..., found {found}")
    others = [key for key in columns if key not in named[:1]]
    texts = [*filter(others.__contains__, TEXT_FIELDS)] or (others if len(others) == 1 else [])
    if not texts:
        found = ", ".join(map(str, columns))
        raise ValueError(f"each choice needs a label and a text, found {found}")
    labels = columns[named[0]] if named else [*range(len(columns[texts[0]]))]
    return _sort_texts(dict(zip(labels, columns[texts[0]], strict=True)))


def _are_pairs(options: Sequence[Any]) -> bool:
    """Return whether these are pairs of a letter and a text, as parquet stores maps."""
    if len(options) < 2 or not all(isinstance(o, list | tuple) and len(o) == 2 for o in options):
        return False
    letters, texts = ([*map(_normalize_label, part)] for part in zip(*options, strict=True))
    return letters == [*ascii_uppercase[: len(letters)]] and not _are_labels(texts)


def _normalize_label(cell: Any) -> str:
    """Return a label in capitals, without brackets and words such as "option"."""
    text = as_text(cell).strip()
    found = LABEL_PATTERN.fullmatch(text)
    return (found[1] if found else text).upper()


def _are_labels(labels: Sequence[str]) -> bool:
    """Return whether these are the labels A, B ..., or numbers from 0 or 1, in any order."""
    counted = [[str(number + first) for number in range(len(labels))] for first in (0, 1)]
    return sorted(labels) in (
        [*ascii_uppercase[: len(labels)]],
        *(sorted(numbers) for numbers in counted),
    )


def _sort_texts(labelled: Mapping[Any, Any]) -> list[Any]:
    """Return the texts of options in the order of their labels. Raises ValueError."""
    by_label = {_normalize_label(label): text for label, text in labelled.items()}
    if len(by_label) < len(labelled) or not _are_labels([*by_label]):
        raise ValueError(f"the labels of choices must be A, B ..., found {', '.join(by_label)}")
    return [by_label[label] for label in sorted(by_label, key=lambda name: (len(name), name))]


LETTER_TEXT_PATTERN = re.compile(r"[(\[]?([A-Za-z])[)\].:\s-]+(.+)", re.S)
WRAPPED_PATTERN = re.compile(
    r"[\s([{<\"*`]*(?:(?:answer|option|choice)\b(?:\s+is\b)?)?[\s([{<\"*`:]*([A-Za-z])[\s)\]}>\"*`.:]*"
    r"|'([A-Za-z])'",
    re.I,
)
"""A letter inside brackets, quotation marks or words; `LETTER_TEXT_PATTERN` matches a letter with
the text of its choice."""


def find_letter(text: str, bare: str, choices: Sequence[object]) -> str:
    """Return the letter of the choice that an answer names, by the letter `bare`, by the whole
    `text`, or by both ("B. blue").

    Raises ValueError if it names no choice or several.
    """
    letters = ascii_uppercase[: len(choices)]
    texts = [str(choice).strip() for choice in choices]
    meant = {letter for letter, choice in zip(letters, texts, strict=True) if choice == text}
    meant |= {bare} & {*letters}
    if not meant and (both := LETTER_TEXT_PATTERN.fullmatch(text)):
        by_letter = dict(zip(letters, map(str.casefold, texts), strict=True))
        named_text = both[2].strip().casefold()
        meant = {both[1].upper()} if by_letter.get(both[1].upper()) == named_text else set()
    if not meant and (wrapped := WRAPPED_PATTERN.fullmatch(text)):
        meant = {(wrapped[1] or wrapped[2]).upper()} & {*letters}
    if not meant and (number := _parse_number(text)) is not None:
        meant = {letters[n] for n, choice in enumerate(texts) if _parse_number(choice) == number}
    if len(meant) > 1:
        raise ValueError(
            f"the answer {text!r} is a letter, but also the text of another choice; write ({text})"
        )
    if not meant:
        named = [choice for choice in choices if isinstance(choice, str)]
        hint = suggest_names(text, (*named, *letters))
        raise ValueError(
            f"the answer {text!r} is neither one of the letters {', '.join(letters)} nor one of the"
            f" texts {named}{hint}"
        )
    return meant.pop()


def _parse_number(text: str) -> float | None:
    """Parse a plain decimal number; None for any other text."""
    return float(text) if re.fullmatch(r"-?\d+(?:\.\d*)?", text) else None
