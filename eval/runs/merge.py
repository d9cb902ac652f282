"""Merges the shards of one run into one run folder, with facts that describe the whole run."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from looktwice.eval.records.judgements import append, judgements
from looktwice.eval.records.records import Key, RunError, RunFolder
from looktwice.eval.records.writer import RunWriter

DESCRIPTIONS = ("changes", "facts")  # of a point: may differ between shards, because no answer depends on them
ADVICE = "merge shards of one configuration and one data set"
COUNTS = ("records", "failed", "tokens_in", "tokens_out")


def merge(shards: Sequence[Path], out: Path) -> str:
    """Copy points, samples, records, judgements and blobs of every shard into `out`; return a sentence with the count.

    The results of an earlier merge in `out` are kept. Raises RunError, before anything is written, if the shards differ
    in configuration or data set.
    """
    if out.resolve() in [path.resolve() for path in shards]:
        raise RunError(f"--out {out} is one of the shards; name another folder")
    runs = [RunFolder(path) for path in shards]
    earlier = [RunFolder(out)] if (out / "points.yaml").exists() else []
    for run in [*earlier, *runs[1:]]:
        _refuse_other_run(runs[0], run)
    _refuse_other_data([*earlier, *runs])
    facts = combine_facts([*earlier, *runs])
    with RunWriter(out) as writer:
        known = {key for run in earlier for key in run.samples}
        answered = {key for run in earlier for key, record in run.records().items() if not record.error}
        for run in runs:
            _copy(run, known, answered, writer)
        writer.points([point for run in runs for point in run.points.values()])
        writer.yaml("run.yaml", facts)
    return f"{len(RunFolder(out).records())} records of {len(shards)} shards in {out}"


def combine_facts(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """The facts of run.yaml for several shards: `shards` lists them, `started` is the earliest, versions are joined."""
    facts = [run.facts for run in runs]
    described = (shard for run in runs for shard in run.facts.get("shards") or [_describe_shard(run)])
    shards = list({shard["folder"]: shard for shard in described}.values())  # one that is merged again counts once
    limits = [limit for each in facts if (limit := each.get("limit")) is not None]
    versions: dict[str, set[str]] = {}
    for each in facts:
        for name, version in (each.get("versions") or {}).items():
            versions.setdefault(name, set()).update([version] if isinstance(version, str) else version)
    whole = {
        "name": facts[0].get("name"),
        "left_out": {name: why for each in facts for name, why in (each.get("left_out") or {}).items()},
        "samples": {task: number for each in facts for task, number in (each.get("samples") or {}).items()},
        "limit": max(limits) if len(limits) == len(facts) else None,
        "versions": {name: each.pop() if len(each) == 1 else sorted(each) for name, each in versions.items()},
        "config": facts[0].get("config"),
        "started": min((each["started"] for each in facts if each.get("started")), default=None),
        "finished": all(each.get("finished") for each in facts),
    }
    plan = {name: facts[0][name] for name in ("arms", "plugins") if name in facts[0]}
    if all("planned" in shard for shard in shards):
        plan["planned"] = dict(sum((Counter(shard["planned"]) for shard in shards), Counter()))
    return {**whole, **plan, "shards": shards, **{name: sum(shard[name] for shard in shards) for name in COUNTS}}


def _describe_shard(run: RunFolder) -> dict[str, Any]:
    """The folder of a shard, its part of the samples, and its counts of records and tokens."""
    records = list(run.records().values())
    usage = [reply.usage for record in records for reply in record.replies]
    counts = (
        len(records),
        sum(bool(record.error) for record in records),
        sum(each.tokens_in for each in usage),
        sum(each.tokens_out for each in usage),
    )
    facts = {name: run.facts.get(name) for name in ("shard", "started", "finished")}
    facts |= {"planned": run.facts["planned"]} if "planned" in run.facts else {}
    return {"folder": str(run.path), **facts, **dict(zip(COUNTS, counts, strict=True))}


def _refuse_other_run(first: RunFolder, other: RunFolder) -> None:
    """Raises RunError if two shards differ in a setting that affects answers."""
    problem = f"{other.path} is not of the same run as {first.path}"
    mine, others = ({point.id: point for point in run.present_and_older[0]} for run in (first, other))
    if differing := sorted(mine.keys() ^ others.keys()):
        point = {**mine, **others}[differing[0]]
        raise RunError(f"{problem}: only one of them has {point.contestant} on {point.task} ({point.id}); {ADVICE}")
    for identifier, point in mine.items():
        ours, theirs = asdict(point), asdict(others[identifier])
        wrong = [name for name in ours if ours[name] != theirs[name] and name not in DESCRIPTIONS]
        if wrong:
            raise RunError(f"{problem}: {wrong[0]} of {point.contestant} on {point.task} differs; {ADVICE}")


def _refuse_other_data(runs: Sequence[RunFolder]) -> None:
    """Raises RunError if two shards have different samples with the same id, or tasks of different sizes."""
    sizes: dict[str, int] = {}
    shas: dict[tuple[str, str], str] = {}
    for run in runs:
        for task, size in (run.facts.get("samples") or {}).items():
            if sizes.setdefault(task, size) != size:
                raise RunError(f"{run.path}: a task of {size} samples has {sizes[task]} in an earlier shard; {ADVICE}")
        for key, row in run.samples.items():
            if shas.setdefault(key, row.sha) != row.sha:
                raise RunError(f"{run.path}: sample {row.id} differs from the earlier shards'; {ADVICE}")


def _copy(shard: RunFolder, known: set[tuple[str, str]], answered: set[Key], writer: RunWriter) -> None:
    if (shard.path / "blobs").exists():
        shutil.copytree(shard.path / "blobs", writer.path / "blobs", dirs_exist_ok=True)
    for key, row in shard.samples.items():
        if key not in known:
            writer.sample(row)
            known.add(key)
    for record in shard.records().values():
        if record.error and record.key in answered:
            continue  # a failure in one shard must not replace an answer of another
        writer.record(record)
        if not record.error:
            answered.add(record.key)
    for line in judgements(shard.path).lines:
        append(writer.path, line)
