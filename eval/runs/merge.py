"""Merges the shards of one run into one run folder, with facts that describe the whole run."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from looktwice.eval.records.judgements import append, judgements
from looktwice.eval.records.records import Key, Record, RunError, RunFolder
from looktwice.eval.records.writer import RunWriter
from looktwice.pipelines.config.paths import allow, allowed_to
from looktwice.pipelines.counted import counted
from looktwice.pipelines.runtime.stores import SHA256, Blobs

# of a point: may differ between shards, because no answer depends on them
DESCRIPTIONS = ("changes", "facts")
ADVICE = "merge shards of one configuration and one data set"
COUNTS = ("records", "failed", "tokens_in", "tokens_out")


class Merged(NamedTuple):
    """What a merge says of itself, and the shards that it lacks, such as "2/3"."""

    said: str
    missing: Sequence[str]


def merge(shards: Sequence[Path], out: Path) -> Merged:
    """Copy points, samples, records, judgements and blobs of every shard into `out`; say the count
    and what is missing.

    The results of an earlier merge in `out` are kept, and what is there already is not written
    again. Of two answers to one question the later shard's counts, which the sentence says. Raises
    RunError, before anything is written, if the shards differ in configuration or data set, or one
    is damaged. Which data a whole shard was made from its digests tell; one of an earlier version
    has none, which the sentence says.
    """
    for path in shards:
        if out.resolve().is_relative_to(path.resolve()):
            where = (
                "is one of the shards"
                if out.resolve() == path.resolve()
                else f"lies in the shard {path}"
            )
            raise RunError(f"--out {out} {where}; name another folder")
    unique = {path.resolve(): path for path in reversed(shards)}  # of one named twice, the last
    runs = [RunFolder(path) for path in unique.values()][::-1]
    earlier = [RunFolder(out)] if (out / "points.yaml").exists() else []
    everything = [*earlier, *runs]
    for run in [*earlier, *runs[1:]]:
        _refuse_other_run(runs[0], run)
    _refuse_other_data(everything)
    facts = combine_facts(everything)
    answers, twice = _last_answers(everything)
    records = _new(_last_answers(earlier)[0], answers)
    samples = _new(_samples(earlier), _samples(everything))
    judged = _new(_judged(earlier), _judged(everything))
    with RunWriter(out) as writer:
        for run in runs:
            _copy_blobs(run.blobs, writer.blobs)
        for row in samples:
            writer.sample(row)
        for record in records:
            writer.record(record)
        append(out, *judged)
        writer.points([point for run in runs for point in run.points.values()])
        writer.yaml("run.yaml", facts)
    if all(reads := [allowed_to(run.path) for run in runs]):
        allow(out, [out / "points.yaml"], {path for paths in reads for path in paths})
    sentences = [f"{counted(len(answers), 'record')} of {counted(len(runs), 'shard')} in {out}"]
    sentences += _doubts(everything)
    if twice:
        sentences.append(
            f"{twice} of them were answered twice and otherwise: the later shard's answer counts"
        )
    missing = _missing(facts["shards"])
    sentences += [f"missing: {', '.join(missing)}"] if missing else []
    return Merged("; ".join(sentences), missing)


def _last_answers(runs: Sequence[RunFolder]) -> tuple[dict[Key, Record], int]:
    """The record of every key that counts, and how many keys have several answers that differ.

    The last one counts, but a failure in one shard does not take the place of an answer of another.
    """
    last: dict[Key, Record] = {}
    twice: set[Key] = set()
    for run in runs:
        for key, record in run.records().items():
            earlier = last.get(key)
            if earlier is not None and not earlier.error:
                if record.error:
                    continue
                if _said(earlier) != _said(record):
                    twice.add(key)
            last[key] = record
    return last, len(twice)


def _said(record: Record) -> tuple[str | None, list[str]]:
    return record.answer, [reply.text for reply in record.replies]


def _samples(runs: Sequence[RunFolder]) -> dict[Any, Any]:
    return {key: row for run in runs for key, row in run.samples.items()}


def _judged(runs: Sequence[RunFolder]) -> dict[Any, Any]:
    return {line.key: line for run in runs for line in judgements(run.path).lines}


def _new(earlier: Mapping[Any, Any], whole: Mapping[Any, Any]) -> list[Any]:
    """The values that have to be written so that `earlier` becomes `whole`."""
    return [value for key, value in whole.items() if earlier.get(key) != value]


def _copy_blobs(source: Blobs, target: Blobs) -> None:
    """Every blob that is not there yet; one that is torn is left out, so that `run` brings it back
    from the cache."""
    for path in source.folder.glob("??/*"):
        if SHA256.fullmatch(path.name) and path.name not in target and path.is_file():
            with suppress(FileNotFoundError):  # a link
                data = source.get(path.name)
                if hashlib.sha256(data).hexdigest() == path.name:
                    target.put(data, path.name)


def combine_facts(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """The facts of run.yaml for several shards: `shards` lists them, `started` is the earliest,
    versions are joined."""
    facts = [run.facts for run in runs]
    by_folder = {}  # once, merged again
    for run in runs:
        for shard in run.facts.get("shards") or [_describe_shard(run)]:
            by_folder[str(Path(shard["folder"]).resolve())] = shard
    shards = list(by_folder.values())
    limits: list[Any] = [fact.get("limit") for fact in facts]
    versions: dict[str, set[str]] = defaultdict(set)
    for name, version in ((n, v) for f in facts for n, v in (f.get("versions") or {}).items()):
        versions[name].update([version] if isinstance(version, str) else version)
    whole = {
        "name": facts[0].get("name"),
        "left_out": _joined(facts, "left_out"),
        "samples": _joined(facts, "samples"),
        "limit": None if None in limits else max(limits),
        "versions": {n: v.pop() if len(v) == 1 else sorted(v) for n, v in versions.items()},
        "config": facts[0].get("config"),
        "started": min((fact["started"] for fact in facts if fact.get("started")), default=None),
        "finished": not _missing(shards) and all(bool(shard.get("finished")) for shard in shards),
    }
    kept = ("arms", "plugins", "data") if len({*limits}) == 1 else ("arms", "plugins")
    whole |= {name: facts[0][name] for name in kept if name in facts[0]}
    if all("planned" in shard for shard in shards):
        whole["planned"] = dict(sum((Counter(shard["planned"]) for shard in shards), Counter()))
    return {
        **whole,
        "shards": shards,
        **{name: sum(shard[name] for shard in shards) for name in COUNTS},
    }


def _joined(facts: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    return {key: value for fact in facts for key, value in (fact.get(name) or {}).items()}


def _missing(shards: Sequence[Mapping[str, Any]]) -> list[str]:
    """The shards that are not there, such as "2/3", nine at most; one without a number is the whole
    run."""
    numbers: dict[Any, set[Any]] = defaultdict(set)
    for shard in shards:
        number, count = shard.get("shard") or (1, 1)
        numbers[count].add(number)
    most = max(numbers, key=lambda count: len(numbers[count]) - count)
    absent = (number for number in range(1, most + 1) if number not in numbers[most])
    return [f"{number}/{most}" for number in islice(absent, 9)]


def _describe_shard(run: RunFolder) -> dict[str, Any]:
    """The folder of a shard, its part of the samples, and its counts of records and tokens."""
    records = run.records().values()
    usage = [reply.usage for record in records for reply in record.replies]
    facts = {name: run.facts.get(name) for name in ("shard", "started", "finished")}
    facts |= {"planned": run.facts["planned"]} if "planned" in run.facts else {}
    return {
        # as run.yaml holds it, to be known again
        "folder": str(run.path).encode(errors="backslashreplace").decode(),
        **facts,
        "records": len(records),
        "failed": sum(bool(record.error) for record in records),
        "tokens_in": sum(used.tokens_in for used in usage),
        "tokens_out": sum(used.tokens_out for used in usage),
    }


def _refuse_other_run(first: RunFolder, other: RunFolder) -> None:
    """Raises RunError if two shards differ in a setting that affects answers."""
    problem = f"{other.path} is not of the same run as {first.path}"
    mine, others = (
        {point.id: point for point in run.present_and_older[0]} for run in (first, other)
    )
    if differing := sorted(mine.keys() ^ others.keys()):
        point = {**mine, **others}[differing[0]]
        raise RunError(
            f"{problem}: only one of them has {point.contestant} on {point.task} ({point.id});"
            f" {ADVICE}"
        )
    for identifier, point in mine.items():
        ours, theirs = asdict(point), asdict(others[identifier])
        wrong = [name for name in ours if ours[name] != theirs[name] and name not in DESCRIPTIONS]
        if wrong:
            raise RunError(
                f"{problem}: {wrong[0]} of {point.contestant} on {point.task} differs; {ADVICE}"
            )


def _doubts(runs: Sequence[RunFolder]) -> Iterator[str]:
    """What may differ between shards and is not refused, in words."""
    silent = sum(
        1 for run in runs if (run.facts.get("shard") or [1, 1])[1] > 1 and "data" not in run.facts
    )
    if silent:
        yield f"{silent} of them, of an earlier version, do not tell which data they were made from"
    plugins: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for plugin in run.facts.get("plugins") or ():
            plugins[plugin["name"]].add(plugin.get("sha") or "")
    for name in (name for name, shas in plugins.items() if len(shas) > 1):
        yield f"the plugin {name} is not the same in all of them"
    if len({run.facts.get("limit") for run in runs}) > 1:
        yield "their limits differ, so that their data were not compared"


def _refuse_other_data(runs: Sequence[RunFolder]) -> None:
    """Raises RunError if shards are of different questions, keys or pictures, or tasks of different
    sizes."""
    sizes: dict[str, int] = {}
    asked: dict[tuple[str, str], tuple[str, str | None]] = {}
    digests: dict[tuple[str, int | None], tuple[RunFolder, Mapping[str, str]]] = {}
    for run in runs:
        names = {point.task_id: point.task for point in run.points.values()}
        for task, digest in (run.facts.get("data") or {}).items():
            before, theirs = digests.setdefault((task, run.facts.get("limit")), (run, digest))
            differing = [part for part in digest if digest[part] != theirs.get(part)]
            if differing:  # of other samples, questions and keys differ as well
                what = "samples" if "samples" in differing else " and ".join(differing)
                raise RunError(
                    f"{run.path} was made from other {what} of {names.get(task, task)} than"
                    f" {before.path}; {ADVICE}"
                )
        for task, size in (run.facts.get("samples") or {}).items():
            if sizes.setdefault(task, size) != size:
                raise RunError(
                    f"{run.path}: a task of {size} samples has {sizes[task]} in an earlier shard;"
                    f" {ADVICE}"
                )
        for key, row in run.samples.items():
            sha, answer = asked.setdefault(key, (row.sha, row.answer))
            if (sha, answer) != (row.sha, row.answer):
                what = "sample" if sha != row.sha else "the key of sample"
                raise RunError(
                    f"{run.path}: {what} {row.id} differs from the earlier shards'; {ADVICE}"
                )
