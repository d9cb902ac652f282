"""Parsing of table cells that hold choices and answers, either in separate columns or in one
string."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from string import ascii_uppercase
from typing import Any

from looktwice.eval.tasks.cells import Row, as_list, as_options, as_text, find_letter

HIDDEN_CELLS = ("hidden", "nan", "none", "")
"""Contents of an answer cell that mean that the answer is hidden."""


def find_lettered_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that hold one choice each, named by letters: A, B ..., or `choice_a`,
    `Option B` and so on, up to the first missing letter."""
    available = [*names]
    for stem in ("", "choices?", "options?"):
        pattern = re.compile(rf"{stem}[ _./-]?([a-z])", re.I)
        matches = [match for match in map(pattern.fullmatch, available) if match]
        by_letter = {match[1].upper(): match[0] for match in matches if stem or match[0].isupper()}
        found = tuple(takewhile(bool, map(by_letter.get, ascii_uppercase)))
        if len(found) > 1:
            return tuple(filter(None, found))
    return ()


def read_choice_texts(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the choices of a row, from one column with a list or from one column per choice,
    without trailing empty cells. Raises ValueError."""
    if len(columns) == 1:
        cells = as_options(row.get(columns[0])) or [""]
    else:  # in separate columns, "[0, 1]" is one choice, an interval
        cells = [row.get(name) for name in columns]
    if objects := [cell for cell in cells if isinstance(cell, Mapping)]:
        raise ValueError(f"a choice must be a string or a number, found {objects[0]!r:.80}")
    texts = [*map(as_text, cells)]
    blank = ("", "nan") if len(columns) > 1 else ("",)  # as pandas writes an empty cell
    while texts and texts[-1] in blank:
        texts.pop()
    return tuple(texts)


LETTER_PATTERNS = (
    r"(?:^|\s)\(?([A-Za-z])[).]\s",
    r"(?:^|[\s,;])(?:\*\*)?[(\[]?([A-Z])[)\].:]+(?:\*\*)?\s",
    r"(?:^|\n)[(\[]([A-Z])[)\]]",
)
"""Patterns of the letter before a choice, tried in this order."""


def split_lettered_choices(text: str) -> tuple[str, tuple[str, ...]]:
    """Split a text into the part before its lettered choices and these choices: "(A) red (B) blue",
    or lines such as "A. red".

    The last choice ends with its line. If the letters are not A, B ... in order, the whole text is
    the only choice.
    """
    for form in LETTER_PATTERNS:
        before, *parts = re.split(form, text)
        letters, choices = parts[::2], [choice.strip() for choice in parts[1::2]]
        if len(letters) > 1 and "".join(letters).upper() == ascii_uppercase[: len(letters)]:
            choices[-1] = choices[-1].partition("\n")[0].strip()
            if all(choice.endswith(",") for choice in choices[:-1]):
                choices = [choice.removesuffix(",") for choice in choices]
            return before.strip(), tuple(choices)
    return text, (text,)


def read_answer_key(cell: Any, choices: Sequence[str], first: int | None = None) -> str | None:
    """Return the correct answer of a row: a letter if there are choices, otherwise the answer's
    text; None if it is hidden.

    With choices, the cell may hold a letter ("B", "(b)", "B."), as the text of the choice, as both
    ("B. blue"), as a list of one of these, or, if `first` is 0 or 1, as a number that counts from
    there. Raises ValueError for anything else.
    """
    answers = [cell] if as_text(cell).strip() in choices else as_list(cell)
    if choices and len(answers) > 1:
        raise ValueError(f"a row must have one answer, found {answers}")
    text = as_text((answers or [None])[0] if choices else cell).strip()
    if text.casefold() in HIDDEN_CELLS and text not in choices:
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
