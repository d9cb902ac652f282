"""Shards of one run, put together into one run folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import yaml

from looktwice.eval.records.judgements import append, judgements
from looktwice.eval.records.records import Key, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter


def merge(shards: Sequence[Path], out: Path) -> str:
    """Copy points, samples, records, verdicts of judges and blobs of every shard into `out`; says how many records.

    Raises RunError where two shards hold different samples under one id, which no one run does.
    """
    if out.resolve() in [path.resolve() for path in shards]:
        raise RunError(f"--out {out} is one of the shards; name another folder")
    with RunWriter(out) as writer:
        known = dict(RunFolder(out).samples)
        answered = {key for key, record in RunFolder(out).records().items() if not record.error}
        for path in shards:
            _add(RunFolder(path), known, answered, writer)
    return f"{len(RunFolder(out).records())} records of {len(shards)} shards in {out}"


def _add(shard: RunFolder, known: dict[tuple[str, str], SampleRow], answered: set[Key], writer: RunWriter) -> None:
    if (shard.path / "blobs").exists():
        shutil.copytree(shard.path / "blobs", writer.path / "blobs", dirs_exist_ok=True)
    for key, row in shard.samples.items():
        if key in known and known[key].sha != row.sha:
            raise RunError(
                f"{shard.path}: sample {row.id} differs from the earlier shards'; merge runs of one data set"
            )
        if key not in known:
            writer.sample(row)
            known[key] = row
    for record in shard.records().values():
        if record.error and record.key in answered:
            continue  # a failure elsewhere must not take the place of an answer
        writer.record(record)
        if not record.error:
            answered.add(record.key)
    writer.points(list(shard.points.values()))
    for line in judgements(shard.path).lines:
        append(writer.path, line)
    facts = yaml.safe_load((shard.path / "run.yaml").read_text(encoding="utf-8"))
    writer.yaml("run.yaml", facts)
