"""Logs that are tables: VLMEvalKit's predictions and results, and a CSV, TSV, Excel or Parquet file
of anybody's."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from looktwice.eval.logs.log import COLUMNS, UNSCORED, WORDS, Log, make_rows
from looktwice.eval.replies.files import without_empty_end
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.row_errors import suggest_name
from looktwice.eval.tasks.table_files import read_texts
from looktwice.pipelines.disk import open_file

if TYPE_CHECKING:
    import pandas

ENDINGS = (".csv", ".tsv", ".xlsx", ".parquet")
ALIASES: Mapping[str, tuple[str, ...]] = {
    "sample": ("sample", "sample_id", "id", "idx", "index", "question_id", "doc_id"),
    "value": ("value", "score", "hit", "correct", "is_correct", "right"),
    "task": ("task", "category", "subtask", "dataset", "benchmark"),
    "contestant": ("contestant", "model"),
    "variant": ("variant",),
    "reply": ("reply", "prediction", "response"),
    "key": ("key", "target"),
    "draw": ("draw", "epoch"),
    "accuracy": ("accuracy",),
    **{
        name: (name,)
        for name in ("question", "pictures", "answer", "verdict", "group", "tokens", "cost", "rank")
    },
}
"""The names under which a column is looked for; `--column NAME=COLUMN` names another."""


def open_columns(path: Path) -> pandas.DataFrame:
    """A table as texts, empty where a cell is. Raises TaskError, also for one without a row."""
    import pandas

    if path.suffix != ".parquet":
        frame = pandas.DataFrame(list(read_texts(path)))
    else:
        try:
            with open_file(path) as file:
                frame = pandas.read_parquet(file).astype(str)
        except Exception as exc:  # a damaged table raises whatever its readers stumble over
            raise TaskError(
                f"{path} cannot be read as a table ({type(exc).__name__}: {exc})"
            ) from exc
    if not len(frame):
        raise TaskError(f"{path} holds no row")
    return frame


def find_columns(frame: pandas.DataFrame, named: Mapping[str, str], path: Path) -> dict[str, str]:
    """Which column of the table holds what; `named` come before ALIASES. Raises TaskError for an
    unknown name."""
    available = [str(name) for name in frame.columns]
    by_case = {name.casefold(): name for name in available}
    for name, column in named.items():
        if name not in ALIASES:
            raise TaskError(f"--column {name}={column}: {name!r} is none of {', '.join(ALIASES)}")
        if column not in available:
            near = suggest_name(column, available)
            raise TaskError(f"{path} has no column {column!r}{near}; it has {', '.join(available)}")
    found: dict[str, str] = {}
    for name, guesses in ALIASES.items():
        column = named.get(name) or next((by_case[one] for one in guesses if one in by_case), "")
        if column and column not in found.values():
            found[name] = column
    return found


def is_vlmevalkit(frame: pandas.DataFrame) -> bool:
    """Whether the table is one of VLMEvalKit's predictions."""
    return {"index", "prediction"} <= set(frame.columns)


def read_table(path: Path, named: Mapping[str, str]) -> list[Log]:
    """The logs of a table: one, or one for each contestant and variant that it has columns for.
    Raises TaskError."""
    frame = open_columns(path)
    found = find_columns(frame, named, path)
    columns = _vlmevalkit_columns(frame) if is_vlmevalkit(frame) else {}
    columns |= {
        name: frame[column]
        for name, column in found.items()
        if name in COLUMNS and name not in columns
    }
    if "sample" not in found or not {"value", "reply"} & found.keys():
        raise TaskError(
            f"{path}: which column is the sample's id and which its value (or its reply, for"
            " --reader)? Say --column sample=COLUMN --column value=COLUMN; the columns are"
            f" {', '.join(map(str, frame.columns))}"
        )
    if "value" in columns:
        columns["value"] = _values(columns["value"], found["value"], path)
    for name in ("draw", "tokens", "cost"):
        if name in columns:
            columns[name] = read_numbers(columns[name], found[name], path)
    names = [name for name in ("contestant", "variant") if name in found]
    if "value" not in columns:
        columns["verdict"] = [UNSCORED] * len(frame)
    rows = make_rows(columns)
    if not names:
        return [Log(path.name.removesuffix(".gz").removesuffix(path.suffix), rows, path.name)]
    who = frame[[found[name] for name in names]].agg(", ".join, axis=1).to_numpy()
    return [
        Log(str(name), part.reset_index(drop=True), path.name)
        for name, part in rows.groupby(who, sort=False)
    ]


def _vlmevalkit_columns(frame: pandas.DataFrame) -> dict[str, Any]:
    """The columns whose names mean something else in VLMEvalKit: `answer` is the key, and A, B ...
    are the choices."""
    letters = [letter for letter in ascii_uppercase if letter in frame.columns]
    texts = frame[letters].to_numpy().tolist() if letters else [[]] * len(frame)
    columns: dict[str, Any] = {
        "choices": [without_empty_end(row) for row in texts],
        "answer": frame["read"].replace("Z", "") if "read" in frame.columns else [""] * len(frame),
    }
    if "answer" in frame.columns:
        columns["key"] = frame["answer"]
    if "image" in frame.columns:
        columns["pictures"] = [_sha_of_base64(cell) for cell in frame["image"]]
    return columns


def _sha_of_base64(cell: str) -> str:
    """The hash of a picture in base64; a list of several, or a number of the row that holds it, has
    none."""
    try:
        return hashlib.sha256(b64decode(cell, validate=True)).hexdigest() if len(cell) > 64 else ""
    except ValueError:
        return ""


def _values(cells: pandas.Series, column: str, path: Path) -> pandas.Series:
    """Values as `parse_value` reads them; an empty cell is a failure. Raises TaskError for other
    words."""
    import pandas

    texts = cells.str.strip().str.casefold()
    values = texts.map(WORDS).astype(float)
    values = values.where(values.notna(), pandas.to_numeric(texts, errors="coerce").astype(float))
    if len(strange := cells[values.isna() & ~texts.isin(("", "nan", "none", "failed"))]):
        raise TaskError(
            f"{path}: {column} is {strange.iloc[0]!r} in row {strange.index[0] + 2}; expected 0 to"
            f" 1, or {', '.join(sorted(WORDS))}"
        )
    return values


def read_numbers(cells: pandas.Series, column: str, path: Path) -> pandas.Series:
    """The cells as numbers, NaN where one is empty. Raises TaskError."""
    import pandas

    try:
        return pandas.to_numeric(cells.replace("", "nan"))
    except ValueError as exc:
        raise TaskError(f"{path}: {column} must hold numbers ({exc})") from exc
