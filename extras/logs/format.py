"""The log formats of all programs, for reading and writing; each program has its own module.

To add one, write a module like `lmms_eval.py` and add a line to `FORMATS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from looktwice.eval.display.printable import make_file_names
from looktwice.eval.records.records import is_run, refuse_run_file
from looktwice.eval.tasks.base import TaskError, suggest_among
from looktwice.eval.tasks.table_files import read_objects
from looktwice.extras.logs.every_eval import (
    read_every_eval_ever,
    write_eval_results,
    write_every_eval_ever,
)
from looktwice.extras.logs.failures import mark_failures
from looktwice.extras.logs.inspect_ai import read_inspect, write_inspect
from looktwice.extras.logs.lmms_eval import SAMPLE_FILE_GLOB, read_lmms_eval, write_lmms_eval
from looktwice.extras.logs.log import UNSCORED, Log, NamedColumns, bracket_letter, make_names_unique
from looktwice.extras.logs.own import read_replies, read_run, rescore_with
from looktwice.extras.logs.tables import TABLE_ENDINGS, read_table, write_vlmevalkit
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import read_file, write_file
from looktwice.pipelines.extensions import list_extensions
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.state import Stage

__all__ = ["FORMATS", "Format", "export_file", "export_logs", "load_log", "read_logs"]


class Format(NamedTuple):
    """A format in which a program writes its logs.

    `matches` returns whether a file or folder has this format, given its path and, if it is JSON,
    the fields of its first object. `read` returns a log for each contestant, using the column names
    that the user gave. `write` writes a log into a folder, given the name of a data set, and yields
    the path of each file; `write_file` writes a file with one of the `suffixes` and returns the
    number of samples.
    """

    name: str
    matches: Callable[[Path, Container[str]], bool] = lambda path, fields: False
    read: Callable[[Path, NamedColumns], list[Log]] | None = None
    write: Callable[[Log, Path, str], Iterator[str]] | None = None
    write_file: Callable[[Log, Path], int] | None = None
    suffixes: tuple[str, ...] = ()


def write_evalai(log: Log, file: Path) -> int:
    """Write a submission to EvalAI: an object that maps idx to "(X)", or to "(Z)" if there is no
    answer; return the number of samples.

    If there are items of the test split, only these are written. Raises OSError.
    """
    answers = dict(zip(log.rows["sample"], log.rows["answer"], strict=True))
    tested = {idx: answer for idx, answer in answers.items() if idx.startswith("test_")}
    submission = {idx: bracket_letter(answer or "Z") for idx, answer in (tested or answers).items()}
    write_file(file, json.dumps(submission, indent=1) + "\n")
    return len(submission)


FORMATS = (
    Format(
        "inspect",
        lambda path, fields: path.suffix == ".eval" or "eval" in fields,
        read_inspect,
        lambda log, out, dataset: write_inspect(log, out),
    ),
    Format(
        "every-eval-ever",
        lambda path, fields: "evaluation_results" in fields or "evaluation_id" in fields,
        read_every_eval_ever,
        lambda log, out, dataset: write_every_eval_ever(log, out),
    ),
    Format("eval-results", write=write_eval_results),
    Format("evalai", write_file=write_evalai, suffixes=(".json",)),
    Format("replies", lambda path, fields: "idx" in fields, read_replies),
    Format(
        "lmms-eval",
        lambda path, fields: (
            any(path.glob(SAMPLE_FILE_GLOB)) or "doc" in fields or "doc_id" in fields
        ),
        read_lmms_eval,
        write_file=write_lmms_eval,
        suffixes=(".jsonl",),
    ),
    Format(
        "vlmevalkit",
        lambda path, fields: get_ending(path) in TABLE_ENDINGS,
        read_table,
        write_file=write_vlmevalkit,
        suffixes=(".tsv", ".xlsx"),
    ),
)
"""The formats of logs; the first one that matches is used. VLMEvalKit's format matches any
table."""


def list_formats() -> tuple[Format, ...]:
    """Return the built-in formats and those of extensions, which precede VLMEvalKit's."""
    further = (extension.open() for extension in list_extensions("logs").values())
    return (*FORMATS[:-1], *further, FORMATS[-1])


RUN_FORMATS = ("trajectories",)
"""Further formats of `looktwice export`, for runs only (`request_diff.trajectories`)."""


def get_ending(path: Path) -> str:
    """Return the suffix of a file's name, ignoring `.gz`."""
    return Path(path.name.removesuffix(".gz")).suffix


def read_logs(
    path: Path | str,
    columns: NamedColumns | None = None,
    reader: Stage | None = None,
    plugins: Sequence[str] = (),
    *,
    must_exist: bool = True,
) -> list[Log]:
    """Read the logs in a file or folder, one for each contestant.

    Accepted are a run folder; inspect_ai's `.eval` or `.json` files, or a folder of `.eval` files;
    VLMEvalKit's `.xlsx` or `.tsv` tables of predictions or results; lmms-eval's samples, as a
    `.jsonl` file or a folder of them; Every Eval Ever's `.json` or `.jsonl`; recorded replies of
    looktwice; and any table. `columns` maps the names of `COLUMNS` to columns of tables, to fields
    of the objects in other logs, and to fields of `meta` in runs; the entry for `value` names the
    scorer of inspect_ai or the metric of lmms-eval. Unless a field of `meta` `must_exist`, a run
    without it keeps its own column. With a `reader`, all replies are parsed again.
    Without one, only rows that were never scored are parsed, by their recorded labels or the robust
    reader. Raises TaskError and RunError.
    """
    path = Path(path)
    if is_run(path):
        logs = read_run(path, reader, plugins, columns, must_exist=must_exist)
    else:
        logs = load_log(path, columns or {})
        for number, log in enumerate(logs):
            if reader is not None or (log.rows["verdict"] == UNSCORED).any():
                logs[number] = rescore_with(log, reader)
    return [replace(log, path=str(path)) for log in logs]


def read_all_logs(
    paths: Sequence[Path | str],
    columns: NamedColumns | None = None,
    reader: Stage | None = None,
    plugins: Sequence[str] = (),
) -> list[Log]:
    """Read the logs of several files and folders, as `read_logs` does.

    If some are no runs, `columns` are theirs: a run whose `meta` lacks such a field keeps its own
    column.
    """
    only_runs = all(is_run(Path(path)) for path in paths)
    read = partial(read_logs, columns=columns, reader=reader, plugins=plugins, must_exist=only_runs)
    return [log for path in paths for log in read(path)]


def load_log(path: Path, columns: NamedColumns) -> list[Log]:
    """Read the logs in a file or folder of another program without scoring anything. Raises
    TaskError."""
    if path.is_dir() and (evaluations := sorted(path.glob("*.eval"))):
        return [log for file in evaluations for log in load_log(file, columns)]
    fields = _read_first_fields(path)
    for form in list_formats():
        if form.read is not None and form.matches(path, fields):
            return [mark_failures(log) for log in form.read(path, columns)]
    if path.is_dir():
        raise TaskError(
            f"{path} is not a run folder and holds no .eval of inspect_ai and no {SAMPLE_FILE_GLOB}"
            " of lmms-eval; name the log files instead"
        )
    suffixes = ", ".join((".eval", ".json", *TABLE_ENDINGS))
    raise TaskError(
        f"{path}: expected a run folder, a log of inspect_ai or Every Eval Ever, or a file that"
        f" ends with one of {suffixes} (text files also with .gz)"
    )


def _read_first_fields(path: Path) -> Container[str]:
    """Return the field names of the first object in a JSON file; empty for other files. Raises
    TaskError if there is no such file."""
    if not path.exists():
        raise TaskError(f"there is no file {path}")
    if get_ending(path) == ".jsonl":
        _, first = next(read_objects(path), (0, {}))
        return first
    if path.suffix != ".json":
        return ()
    try:
        value = read_json(read_file(path), max_values=None)
    except ValueError as exc:
        raise TaskError(f"{path} is not JSON ({exc})") from exc
    return value if isinstance(value, dict) else ()


def export_logs(logs: Sequence[Log], form: str, out: Path, dataset: str = "") -> Iterator[str]:
    """Write each contestant into the folder `out`, and yield a line per file.

    `form` names a writable format: one `.eval` file of inspect_ai for each task, Every Eval Ever's
    pair of files, or a file for Hugging Face's `.eval_results`, which refers to the repository
    `dataset`. Raises TaskError and OSError.
    """
    formats = {entry.name: entry for entry in list_formats() if entry.write or entry.write_file}
    if form not in formats:
        names = [*formats, *RUN_FORMATS]
        if not form:
            raise TaskError(f"name the format with --to: {', '.join(names)}")
        raise TaskError(f"--to {form}: there is no such format{suggest_among(form, names)}")
    _, _, _, write, write_one, suffixes = formats[form]
    named = make_names_unique([log.whole for log in logs])
    files = make_file_names([log.name for log in named])
    out.mkdir(parents=True, exist_ok=True)
    for log in named:
        if write_one is not None:
            file = out / f"{files[log.name]}{suffixes[0]}"
            yield f"written: {file} ({format_count(write_one(log, file), 'sample')})"
        elif write is not None:
            for line in write(log, out, dataset):
                yield f"written: {line}"


def export_file(log: Log, file: Path) -> int:
    """Write a log in the format of the file's suffix; return the number of samples. Raises
    TaskError, RunError and OSError."""
    refuse_run_file(file)
    for form in list_formats():
        if file.suffix in form.suffixes and form.write_file is not None:
            return form.write_file(log, file)
    formats = [form for form in FORMATS if form.suffixes]
    choices = "; ".join(f"{' or '.join(form.suffixes)} for {form.name}" for form in formats)
    raise TaskError(f"--export {file}: the ending must be one of: {choices}")
