"""Every record of a run as one line of a table: what was asked, said, read, decided, and what it
took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from looktwice.eval.scoring.labels import setting_of
from looktwice.eval.scoring.verdict import RunScores

ROWS = 20_000  # written at once

FIELDS = {
    "run": "string",
    "contestant": "string",  # with its changes
    "task": "string",  # with its changes
    "point": "string",  # id of the arm in points.yaml
    "sample": "string",
    "draw": "int64",
    "verdict": "string",  # right, wrong, unreadable, failed, hidden
    "score": "float64",  # 0..1
    "answer": "string",
    "key": "string",
    "reason": "string",  # why it is unreadable
    "group": "string",
    "question": "string",
    "reply": "string",  # the last one, in its own words
    "error": "string",
    "calls": "int64",
    "tokens_in": "int64",
    "tokens_out": "int64",
    "cost": "float64",
    "seconds": "float64",  # of all stages
    "cached": "int64",  # calls answered from the cache
    "pictures": "list<string>",  # sha256 of what was sent, under blobs/
}
"""The columns and their types; behind them one for each setting that the study changes, as text."""


def record_table(runs: Sequence[RunScores]) -> Any:
    """All records of some runs as a `pyarrow.Table`, in the order of their lines."""
    import pyarrow

    return pyarrow.Table.from_batches(list(_batches(runs)), schema=_schema(runs))


def write_parquet(runs: Sequence[RunScores], path: Path) -> int:
    """Write all records of some runs into a Parquet file, some at a time; how many there were."""
    from pyarrow.parquet import ParquetWriter

    path.parent.mkdir(parents=True, exist_ok=True)
    partial, count = path.with_name(f".{path.name}.partial"), 0
    with ExitStack() as stack:
        stack.callback(partial.unlink, missing_ok=True)
        with ParquetWriter(partial, _schema(runs)) as writer:
            for batch in _batches(runs):
                writer.write_batch(batch)
                count += batch.num_rows
        partial.replace(path)
    return count


def _places(runs: Sequence[RunScores]) -> list[str]:
    return list(
        dict.fromkeys(name for run in runs for arm in run.points for name in arm.point.changes)
    )


def _schema(runs: Sequence[RunScores]) -> Any:
    import pyarrow

    kinds = {"list<string>": pyarrow.list_(pyarrow.string())}
    known = [
        (name, kinds.get(kind) or pyarrow.type_for_alias(kind)) for name, kind in FIELDS.items()
    ]
    return pyarrow.schema([*known, *((place, pyarrow.string()) for place in _places(runs))])


def _batches(runs: Sequence[RunScores]) -> Iterator[Any]:
    import pyarrow

    rows, schema, places = list[Mapping[str, Any]](), _schema(runs), _places(runs)
    for run in runs:
        for row in _rows(run, places):
            rows.append(row)
            if len(rows) == ROWS:
                yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)
                rows = []
    yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)


def _rows(run: RunScores, places: Sequence[str]) -> Iterator[dict[str, Any]]:
    for scores, record in run.records():
        scored, sample = scores.result_of(record), scores.samples.get(record.sample)
        if scored is not None and sample is not None:
            settings = {place: setting_of(scores.point, place) for place in places}
            texts = {
                place: None if value is None else str(value) for place, value in settings.items()
            }
            reply, timed = record.last_reply, record.timings.get("calls") or ()
            yield {
                "run": run.name,
                "contestant": scores.contestant,
                "task": scores.task,
                "point": scores.point.id,
                "sample": record.sample,
                "draw": record.draw,
                "verdict": scored.verdict.value,
                "score": scored.score.value,
                "answer": scored.answer,
                "key": sample.answer,
                "reason": scored.reason or None,
                "group": scored.score.group or None,
                "question": sample.sample["question"],
                "reply": reply["text"] if reply else None,
                "error": record.error or None,
                "calls": scored.calls,
                "tokens_in": scored.tokens_in,
                "tokens_out": scored.tokens_out,
                "cost": scored.cost,
                "seconds": record.timings.get("total"),
                "cached": sum(bool(one.get("cached")) for one in timed),
                "pictures": list(record.pictures),
                **texts,
            }
