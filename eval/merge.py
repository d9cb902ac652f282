"""Shards of one run, put together into one run folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import yaml

from looktwice.eval.records import RunError, RunFolder, SampleRow
from looktwice.eval.writer import RunWriter

__all__ = ["merged"]


def merged(shards: Sequence[Path], out: Path) -> str:
    """Copy points, samples, records and blobs of every shard into `out`; says how many records there are.

    Raises RunError where two shards hold different samples under one id, which no one run does.
    """
    with RunWriter(out) as writer:
        known = dict(RunFolder(out).samples)
        for path in shards:
            _add(RunFolder(path), known, writer)
    return f"{len(RunFolder(out).records())} records of {len(shards)} shards in {out}"


def _add(shard: RunFolder, known: dict[tuple[str, str], SampleRow], writer: RunWriter) -> None:
    for key, row in shard.samples.items():
        if key in known and known[key].sha != row.sha:
            raise RunError(
                f"{shard.path}: sample {row.id} differs from the earlier shards'; merge runs of one data set"
            )
        if key not in known:
            writer.sample(row)
            known[key] = row
    for record in shard.records().values():
        writer.record(record)
    writer.points(list(shard.points.values()))
    facts = yaml.safe_load((shard.path / "run.yaml").read_text(encoding="utf-8"))
    writer.yaml("run.yaml", facts)
    if (shard.path / "blobs").exists():
        shutil.copytree(shard.path / "blobs", writer.path / "blobs", dirs_exist_ok=True)
