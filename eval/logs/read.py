"""Reads the logs of a file or folder, whichever program wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from looktwice.eval.logs.inspect_logs import load_json, read_inspect
from looktwice.eval.logs.json_logs import read_every_eval_ever, read_lmms_eval
from looktwice.eval.logs.log import UNSCORED, Log
from looktwice.eval.logs.run_logs import read_replies, read_run, read_with
from looktwice.eval.logs.tables import ENDINGS, read_table
from looktwice.eval.readers.robust import Robust
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.table_files import read_objects
from looktwice.pipelines.state import Stage

__all__ = ["read_logs"]


def read_logs(
    path: Path | str,
    columns: Mapping[str, str] | None = None,
    reader: Stage | None = None,
    plugins: Sequence[str] = (),
) -> list[Log]:
    """The logs in a file or folder, one for each contestant.

    A run folder; inspect_ai's `.eval` or `.json`; VLMEvalKit's `.xlsx` or `.tsv`, of predictions or
    of results; lmms-eval's samples, a `.jsonl` or the folder of them; Every Eval Ever's `.json` or
    `.jsonl`; our recorded replies; a table. `columns` names columns of tables by what they hold,
    and as `value` the scorer of inspect_ai or the metric of lmms-eval. `reader` reads all replies
    again; without one, the robust reader reads those that nobody scored. Raises TaskError and
    RunError.
    """
    path, named = Path(path), dict(columns or {})
    if path.is_dir() and (path / "points.yaml").exists():
        logs = read_run(path, reader, plugins)
    else:
        logs = [read_with(log, reader) if reader is not None else log for log in _read(path, named)]
        logs = [
            read_with(log, Robust()) if bool((log.rows["verdict"] == UNSCORED).all()) else log
            for log in logs
        ]
    return [replace(log, path=str(path)) for log in logs]


def _read(path: Path, named: Mapping[str, str]) -> list[Log]:
    value, ending = named.get("value", ""), Path(path.name.removesuffix(".gz")).suffix
    if path.is_dir():
        if samples := sorted(path.glob("*_samples_*.jsonl")):
            return [read_lmms_eval(samples, value)]
        raise TaskError(
            f"{path} is no run folder and holds no *_samples_*.jsonl of lmms-eval; name the files"
            " themselves"
        )
    if ending == ".eval":
        return [read_inspect(path, value)]
    if ending == ".json":
        return [_read_json(path, value)]
    if ending == ".jsonl":
        return [_read_json_lines(path, value)]
    if ending in ENDINGS:
        return read_table(path, named)
    if not path.exists():
        raise TaskError(f"there is no file {path}")
    known = ", ".join((".eval", ".json", ".jsonl", *ENDINGS))
    raise TaskError(
        f"{path}: expected a run folder or a log that ends with one of {known}, and .gz behind text"
    )


def _read_json(path: Path, value: str) -> Log:
    held = load_json(path)
    if isinstance(held, dict) and "evaluation_results" in held:
        return read_every_eval_ever(path)
    if isinstance(held, dict) and "eval" in held:
        return read_inspect(path, value)
    raise TaskError(f"{path} is neither a log of inspect_ai nor one of Every Eval Ever")


def _read_json_lines(path: Path, value: str) -> Log:
    _, first = next(read_objects(path), (0, {}))
    if {"evaluation_id", "sample_id"} <= first.keys():
        return read_every_eval_ever(path)
    if "idx" in first:
        return read_replies(path)
    return read_lmms_eval([path], value)
