"""Logs that are tables: functions that read any CSV, TSV, Excel or Parquet file and write
VLMEvalKit's tables."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING

from looktwice.eval.replies import get_subtask_of_idx
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.cells import as_text
from looktwice.eval.tasks.table_files import read_objects, read_texts
from looktwice.extras.logs.log import (
    COLUMNS,
    SCORE_WORDS,
    UNSCORED,
    Log,
    NamedColumns,
    hash_base64,
    make_rows,
    parse_value,
)
from looktwice.pipelines.config.classes import extend_hint, suggest_names
from looktwice.pipelines.disk import open_atomic, open_file, write_file
from looktwice.pipelines.json_input import read_json, write_json

if TYPE_CHECKING:
    import pandas

TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".xlsx", ".parquet")
ALIASES: Mapping[str, tuple[str, ...]] = {
    "sample": ("sample", "sample_id", "id", "idx", "index", "question_id", "doc_id"),
    "value": ("value", "score", "hit", "correct", "is_correct", "right"),
    "task": ("task", "category", "subtask", "dataset", "benchmark"),
    "contestant": ("contestant", "model"),
    "variant": ("variant",),
    "reply": ("reply", "prediction", "response", "output", "pred", "model_answer"),
    "key": ("key", "target", "gold", "ground_truth", "gt_answer", "label"),
    "question": ("question", "query", "text"),
    "choices": ("choices", "options"),
    "draw": ("draw", "epoch"),
    "accuracy": ("accuracy",),
    "label": ("official_label",),
    **{
        name: (name,)
        for name in ("pictures", "answer", "verdict", "group", "tokens", "cost", "rank")
    },
}
"""The names by which each column is recognized; `--column NAME=COLUMN` sets another one."""
_VLMEVALKIT_ALIASES = {"answer": ("read",), "key": ("answer", "key", "target"), "split": ("split",)}
_UNREAD_LOG_PATTERN = "randomly generate one|Failed in Prefetch, no GPT-based"
"""A pattern for VLMEvalKit's entries in the column `log` if no answer was found, so that VLMEvalKit
chose one at random or counted the reply as wrong."""
_MAX_CELL_CHARACTERS = 32_767  # the most characters in an Excel cell


def open_columns(path: Path) -> pandas.DataFrame:
    """Read a table in which every cell is a string; empty cells are empty strings. Raises
    TaskError, also for a table without rows."""
    import pandas

    if ".jsonl" in path.suffixes:
        lines = [line for _, line in read_objects(path)]
        frame = pandas.DataFrame(lines).astype(object)
        frame = frame.where(frame.notna(), "").map(
            lambda cell: write_json(cell) if isinstance(cell, list | dict) else as_text(cell)
        )
    elif path.suffix != ".parquet":
        frame = pandas.DataFrame(list(read_texts(path)))
    else:
        try:
            with open_file(path) as file:
                read = pandas.read_parquet(file)
            frame = read.astype(str).where(read.notna(), "")
        except Exception as exc:  # a damaged table can raise any exception
            raise TaskError(
                f"{path} cannot be read as a table ({type(exc).__name__}: {exc})"
            ) from exc
    if not len(frame):
        raise TaskError(f"{path} holds no rows")
    return frame


def _parse_choices(cell: str) -> tuple[str, ...]:
    """Parse the texts of choices from a JSON list; empty for any other cell."""
    try:
        choices = read_json(cell)
    except ValueError:
        return ()
    return tuple(map(str, choices)) if isinstance(choices, list) else ()


def find_columns(
    frame: pandas.DataFrame,
    named: NamedColumns,
    path: Path,
    aliases: Mapping[str, Sequence[str]] = ALIASES,
) -> dict[str, str]:
    """Map the names of `aliases` to columns of the table; `named` takes precedence. Raises
    TaskError for an unknown name."""
    available = [*map(str, frame.columns)]
    by_case = {name.casefold(): name for name in available}
    for name, column in named.items():
        if name not in aliases:
            raise TaskError(
                f"--column {name}={column}: {name!r} is not one of {', '.join(aliases)}"
            )
        if column not in available:
            near = suggest_names(column, available)
            there = extend_hint(near, f"it has {', '.join(available)}")
            raise TaskError(f"{path} has no column {column!r}{there}")
    columns = dict(named)
    for name, guesses in aliases.items():
        column = next((by_case[guess] for guess in guesses if guess in by_case), "")
        if column and name not in columns and column not in columns.values():
            columns[name] = column
    return columns


def read_table(path: Path, named: NamedColumns) -> list[Log]:
    """Read the logs in a table: a single log, or one for each contestant and variant if the table
    has such columns.

    In VLMEvalKit's tables, `answer` is the key, and A, B ... are the choices. Raises TaskError.
    """
    frame = open_columns(path)
    vlmevalkit = {"index", "prediction"} <= set(frame.columns)
    keyed = vlmevalkit or {"idx", "reply"} <= set(frame.columns)
    aliases = {**ALIASES, **_VLMEVALKIT_ALIASES} if keyed else ALIASES
    columns = find_columns(frame, named, path, aliases)
    if "sample" not in columns or not {"value", "reply"} & columns.keys():
        raise TaskError(
            f"{path}: which column is the sample's id and which its value (or its reply, for"
            " --reader)? Add --column sample=COLUMN --column value=COLUMN, or --column"
            " reply=COLUMN --column key=COLUMN; the columns are"
            f" {', '.join(map(str, frame.columns))}"
        )
    chosen = {name: column for name, column in columns.items() if name in COLUMNS}
    data = frame[list(chosen.values())].set_axis(list(chosen), axis=1)
    if "value" not in columns:
        data["verdict"] = UNSCORED
    else:
        cells = data["value"]
        data["value"] = _parse_values(cells, columns["value"], path)
        data["scorer"] = columns["value"]
        if "reply" in columns and "verdict" not in columns:
            unscored = data["value"].isna() & (data["reply"].str.strip() != "")
            unscored &= cells.str.strip().str.casefold() != "failed"
            data["verdict"] = unscored.map({True: UNSCORED, False: ""})
    if "choices" in data:
        data["choices"] = data["choices"].map(_parse_choices)
    for name in {"draw", "tokens", "cost"} & columns.keys():
        data[name] = read_numbers(data[name], columns[name], path)
    if vlmevalkit:
        letters = [letter for letter in ascii_uppercase if letter in frame.columns]
        data["choices"] = [()] * len(frame)
        if letters:  # up to the last non-empty choice
            texts = frame[letters].agg("\0".join, axis=1).str.rstrip("\0")
            data["choices"] = [tuple(text.split("\0")) if text else () for text in texts]
        data["answer"] = data["answer"].replace("Z", "") if "answer" in data else ""
        if "image" in frame.columns:  # a short cell is the index of the row with the picture
            data["pictures"] = [
                hash_base64(cell) if len(cell) > 64 else "" for cell in frame["image"]
            ]
    rows = make_rows(data.to_dict("records"))
    no_answer = frame["log"].str.contains(_UNREAD_LOG_PATTERN) if "log" in frame.columns else None
    rows = _mark_unread(rows, no_answer if vlmevalkit else None)
    names = [columns[name] for name in ("contestant", "variant") if name in columns]
    if not names:
        return [Log(Path(path.name.removesuffix(".gz")).stem, rows, path.name)]
    parts = rows.groupby(frame[names].agg(", ".join, axis=1).to_numpy(), sort=False)
    return [Log(str(name), part.reset_index(drop=True), path.name) for name, part in parts]


def _mark_unread(rows: pandas.DataFrame, no_answer: pandas.Series | None) -> pandas.DataFrame:
    """Mark wrong rows without an answer as unreadable if other rows have answers.

    Scored rows in `no_answer` are also unreadable; their value is 0 even if VLMEvalKit's random
    answer was right.
    """
    scored = rows["verdict"].isin(("right", "wrong"))
    unread = (rows["answer"].str.strip() == "") & (rows["verdict"] == "wrong")
    unread &= bool((rows["answer"] != "").any())
    if no_answer is not None:
        unread |= no_answer & scored
    verdicts, values = rows["verdict"].mask(unread, "unreadable"), rows["value"].mask(unread, 0.0)
    return rows.assign(verdict=verdicts, value=values)


def _parse_values(cells: pandas.Series, column: str, path: Path) -> pandas.Series:
    """Parse a column of values with `parse_value`; an empty cell counts as a failure. Raises
    TaskError for any other text."""
    values = cells.map(parse_value).astype(float)
    empty = cells.str.strip().str.casefold().isin(("", "nan", "none", "failed"))
    if len(strange := cells[values.isna() & ~empty]):
        raise TaskError(
            f"{path}: {column} is {strange.iloc[0]!r} in row {strange.index[0]} (the first is row"
            f" 0); expected 0 to 1, or {', '.join(sorted(SCORE_WORDS))}"
        )
    return values


def read_numbers(cells: pandas.Series, column: str, path: Path) -> pandas.Series:
    """Parse the cells as numbers, NaN for empty ones. Raises TaskError."""
    import pandas

    try:
        return pandas.to_numeric(cells.replace("", "nan"))
    except ValueError as exc:
        raise TaskError(f"{path}: {column} must hold numbers ({exc})") from exc


def write_vlmevalkit(log: Log, file: Path) -> int:
    """Write the rows as VLMEvalKit's table of predictions, `.tsv` or `.xlsx`; return their number.
    Raises TaskError and OSError."""
    rows = log.rows.to_dict("records")
    most = max((len(row["choices"]) for row in rows), default=0)
    letters = list(ascii_uppercase[:most])
    table = [["index", "split", "category", "question", *letters, "answer", "prediction", "read"]]
    for row in rows:
        idx, read = row["sample"], row["answer"].strip("()") or "Z"
        split = idx.partition("_")[0] if get_subtask_of_idx(idx) else "none"
        texts = [*row["choices"], *[""] * (most - len(row["choices"]))]
        key = row["key"].strip("()")
        table.append([idx, split, row["task"], row["question"], *texts, key, row["reply"], read])
    if file.suffix == ".xlsx":
        _write_xlsx(table, file)
    else:
        text = StringIO(newline="")
        csv.writer(text, delimiter="\t").writerows(table)
        write_file(file, text.getvalue())
    return len(rows)


def _write_xlsx(table: Sequence[Sequence[str]], file: Path) -> None:
    try:
        from openpyxl import Workbook
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE, WriteOnlyCell
    except ImportError as exc:
        raise TaskError(
            f"{file}: writing .xlsx needs openpyxl; `pip install openpyxl`, or use .tsv"
        ) from exc
    if long := [row[0] for row in table if any(len(cell) > _MAX_CELL_CHARACTERS for cell in row)]:
        raise TaskError(
            f"{file}: {len(long)} rows (the first is {long[0]}) exceed the length of an Excel"
            " cell; use .tsv"
        )
    book = Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    for row in table:
        cells = []
        for text in row:
            cells.append(WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", text)))
            cells[-1].data_type = "s"  # a reply that begins like a formula is stored as text
        if row[0].isdecimal() and str(int(row[0])) == row[0]:
            cells[0].value = int(row[0])  # VLMEvalKit's own scorer expects the number
        sheet.append(cells)
    with open_atomic(file) as out:
        book.save(out)
