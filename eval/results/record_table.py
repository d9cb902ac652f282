"""A table with one row per record, for pandas and Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from looktwice.eval.scoring.labels import get_setting
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.disk import open_atomic

# ---- the records

ROWS_PER_BATCH = 20_000  # written at a time

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
    "reply": "string",  # the text of the last one
    "error": "string",
    "calls": "int64",
    "tokens_in": "int64",
    "tokens_out": "int64",
    "cost": "float64",
    "seconds": "float64",  # of all stages
    "cached": "int64",  # calls answered from the cache
}
"""The columns and their types.

They are followed by `pictures`, the sha256 of the pictures that were sent (under blobs/), and by a
text column for each setting that the study changes.
"""


def record_table(runs: Sequence[RunScores]) -> Any:
    """Return all records of these runs as a `pyarrow.Table`, in their stored order."""
    import pyarrow

    schema = _make_schema(runs)
    return pyarrow.Table.from_batches(_make_batches(runs, schema), schema=schema)


def write_parquet(runs: Sequence[RunScores], path: Path) -> int:
    """Write all records of these runs to a Parquet file in batches; return their number."""
    from pyarrow.parquet import ParquetWriter

    path.parent.mkdir(parents=True, exist_ok=True)
    schema, count = _make_schema(runs), 0
    with open_atomic(path) as file, ParquetWriter(file, schema) as writer:
        for batch in _make_batches(runs, schema):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _make_schema(runs: Sequence[RunScores]) -> Any:
    """Return the Arrow schema: the columns of `FIELDS`, and one for each changed setting."""
    import pyarrow

    types = {name: pyarrow.type_for_alias(kind) for name, kind in FIELDS.items()}
    types["pictures"] = pyarrow.list_(pyarrow.string())
    for run in runs:
        for scores in run.points:
            types |= dict.fromkeys(scores.point.changes, pyarrow.string())
    return pyarrow.schema(types)


def _make_batches(runs: Sequence[RunScores], schema: Any) -> Iterator[Any]:
    import pyarrow

    rows = _make_rows(runs, schema.names[len(FIELDS) + 1 :])
    while some := list(islice(rows, ROWS_PER_BATCH)):
        yield pyarrow.RecordBatch.from_pylist(some, schema=schema)


def _make_rows(runs: Sequence[RunScores], places: Sequence[str]) -> Iterator[dict[str, Any]]:
    for run in runs:
        for scores, record in run.records():
            scored, sample = scores.result_of(record), scores.samples.get(record.sample)
            if scored is None or sample is None:
                continue
            settings = dict[str, str | None]()
            for place in places:
                value = get_setting(scores.point, place)
                settings[place] = None if value is None else str(value)
            reply = record.last_reply
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
                "cached": sum(bool(c.get("cached")) for c in record.timings.get("calls") or ()),
                "pictures": list(record.pictures),
                **settings,
            }
