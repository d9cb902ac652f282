"""Merges the shards of one run into one run folder, with facts that describe the whole run."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from looktwice.eval.records.judgements import Judgement, append_judgements, read_judgements
from looktwice.eval.records.records import PointRow, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter
from looktwice.extras.executors.record_index import RecordIndex
from looktwice.pipelines.config.paths import read_grant, save_grant
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.runtime.stores import SHA256_PATTERN

# fields of a point that may differ between shards, because no answer depends on them
DESCRIPTIVE_FIELDS = ("changes", "facts")
MERGE_ADVICE = "merge shards of one configuration and one data set"
COUNT_FIELDS = ("records", "failed", "tokens_in", "tokens_out")


class MergeResult(NamedTuple):
    """The sentence that describes a merge, and the missing shards, such as "2/3"."""

    summary: str
    missing: Sequence[str]


def merge(shards: Sequence[Path], out: Path) -> MergeResult:
    """Copy points, samples, records, judgements and blobs of every shard into `out`; return the
    counts and the missing shards.

    The results of an earlier merge in `out` are kept, and only new ones are written. If two shards
    answer the same question, the answer of the later one is kept, and the sentence reports it.
    Digests identify the data of a complete shard. Raises RunError, before anything is written, if
    the shards differ in configuration or data set, or if one is damaged.
    """
    unique = {path.resolve(): path for path in reversed(shards)}  # the last of duplicates
    for whole, path in unique.items():
        if out.resolve().is_relative_to(whole):
            is_one = out.resolve() == whole
            where = "is one of the shards" if is_one else f"lies in the shard {path}"
            raise RunError(f"--out {out} {where}; name another folder")
    runs = list(map(RunFolder, reversed(unique.values())))
    earlier = [RunFolder(out)] if (out / "points.yaml").exists() else []
    every = [*earlier, *runs]
    _refuse_other_runs(runs[0], [*earlier, *runs[1:]])
    latest = _refuse_other_data(every)
    index = RecordIndex(every)
    facts, missing = _combine_facts(every, index)
    (old, _), (records, twice) = (index.select_latest(n) for n in (len(earlier), len(every)))
    old_judged, judged = _select_judgements(earlier), _select_judgements(every)
    with RunWriter(out) as writer:
        points = list[PointRow]()
        for run in runs:
            _copy_blobs(run, writer)
            points += run.points.values()
        for (task, name), run in latest.items():
            row = run.samples_by_task[task][name]
            if not any(one.samples_by_task.get(task, {}).get(name) == row for one in earlier):
                writer.add_sample(row)
        index.write_new(records, old, writer)
        append_judgements(
            out, *(line for key, line in judged.items() if old_judged.get(key) != line)
        )
        writer.add_points(points)
        writer.write_yaml("run.yaml", facts)
    if all(reads := [read_grant(run.path).folders for run in runs]):
        save_grant(out, chain.from_iterable(reads))
    sentences = [
        f"{format_count(len(records), 'record')} of {format_count(len(runs), 'shard')} in {out}"
    ]
    sentences += _describe_doubts(every)
    if twice:
        sentences.append(
            f"answers differ between shards for {format_count(twice, 'record')}; the answer"
            " of the later shard is kept"
        )
    if missing:
        sentences.append(f"missing: {', '.join(missing)}")
    return MergeResult("; ".join(sentences), missing)


def _select_judgements(runs: Sequence[RunFolder]) -> dict[Any, Judgement]:
    """Return the latest judgements of several runs by key."""
    return {line.key: line for run in runs for line in read_judgements(run.path).lines}


def _copy_blobs(run: RunFolder, writer: RunWriter) -> None:
    """Copy missing blobs, except damaged ones, which `run` restores from the cache."""
    for path in run.blobs.folder.glob("??/*"):
        sha = path.name
        if SHA256_PATTERN.fullmatch(sha) and sha not in writer.blobs and path.is_file():
            with suppress(FileNotFoundError):  # a dangling link
                data = run.blobs.get(sha)
                if hashlib.sha256(data).hexdigest() == sha:
                    writer.blobs.put(data, sha)


def _combine_facts(
    runs: Sequence[RunFolder], index: RecordIndex
) -> tuple[dict[str, Any], list[str]]:
    """Combine the facts of run.yaml of several shards, and list the missing shards, such as "2/3".

    `shards` lists the shards, `started` is the earliest start, and versions are joined.
    """
    facts, by_folder = [run.facts for run in runs], dict[str, Mapping[str, Any]]()
    joined: dict[str, dict[str, Any]] = {"left_out": {}, "samples": {}}
    versions = defaultdict[str, list[str]](list)
    for number, run in enumerate(runs):
        for shard in run.facts.get("shards") or [_describe_shard(run, index.count(number))]:
            by_folder[str(Path(shard["folder"]).resolve())] = shard  # once, if merged again
        for name, values in joined.items():
            values |= run.facts.get(name) or {}
        for name, version in (run.facts.get("versions") or {}).items():
            several = [version] if isinstance(version, str) else version
            versions[name] = sorted({*versions[name], *several})
    shards, first = list(by_folder.values()), facts[0]
    missing = _list_missing_shards(shards)
    limits: list[Any] = [fact.get("limit") for fact in facts]
    whole = {
        "name": first.get("name"),
        **joined,
        "limit": None if None in limits else max(limits),
        "versions": {n: v if len(v) > 1 else v[0] for n, v in versions.items()},
        "config": first.get("config"),
        "started": min(filter(None, (fact.get("started") for fact in facts)), default=None),
        "finished": not missing and all(bool(shard.get("finished")) for shard in shards),
    }
    for name in ("arms", "plugins", "data"):
        if name in first and (name != "data" or len({*limits}) == 1):
            whole[name] = first[name]
    if all("planned" in shard for shard in shards):
        whole["planned"] = dict(sum((Counter(shard["planned"]) for shard in shards), Counter()))
    whole["shards"] = shards
    for name in COUNT_FIELDS:
        whole[name] = sum(shard[name] for shard in shards)
    return whole, missing


def _list_missing_shards(shards: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return at most nine missing shards, such as "2/3"; a run without a shard number counts as
    complete."""
    numbers = defaultdict[Any, set[Any]](set)
    for shard in shards:
        number, count = shard.get("shard") or (1, 1)
        numbers[count].add(number)
    most = max(numbers, key=lambda count: len(numbers[count]) - count)
    absent = (number for number in range(1, most + 1) if number not in numbers[most])
    return [f"{number}/{most}" for number in islice(absent, 9)]


def _describe_shard(run: RunFolder, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return a shard's folder, its number such as "2/3", its times, and its counts of records and
    tokens."""
    # as run.yaml stores it, so that it can be recognized
    shard: dict[str, Any] = {"folder": str(run.path).encode(errors="backslashreplace").decode()}
    shard |= {name: run.facts.get(name) for name in ("shard", "started", "finished")}
    if "planned" in run.facts:
        shard["planned"] = run.facts["planned"]
    return {**shard, **counts}


def _refuse_other_runs(first: RunFolder, others: Sequence[RunFolder]) -> None:
    """Raise RunError if two shards differ in a setting that affects answers."""
    mine = {point.id: point for point in first.current_and_earlier_points[0]}
    for rival in others:
        problem = f"{rival.path} does not belong to the same run as {first.path}"
        theirs = {point.id: point for point in rival.current_and_earlier_points[0]}
        for name in sorted(mine.keys() ^ theirs.keys()):
            point = mine.get(name) or theirs[name]
            where = f"{point.contestant} on {point.task} ({point.id})"
            raise RunError(f"{problem}: only one of them has {where}; {MERGE_ADVICE}")
        for name, point in mine.items():
            for setting, value in vars(point).items():
                if value != getattr(theirs[name], setting) and setting not in DESCRIPTIVE_FIELDS:
                    where = f"{point.contestant} on {point.task}"
                    raise RunError(f"{problem}: {setting} of {where} differs; {MERGE_ADVICE}")


def _describe_doubts(runs: Sequence[RunFolder]) -> Iterator[str]:
    """Yield sentences about allowed differences between shards."""
    limits = set[Any]()
    plugins = defaultdict[str, set[str]](set)
    for facts in (run.facts for run in runs):
        limits.add(facts.get("limit"))
        for plugin in facts.get("plugins") or ():
            plugins[plugin["name"]].add(plugin.get("sha") or "")
    for name, shas in plugins.items():
        if len(shas) > 1:
            yield f"the plugin {name} differs between them"
    if len(limits) > 1:
        yield "their limits differ, so their data were not compared"


def _refuse_other_data(runs: Sequence[RunFolder]) -> dict[tuple[str, str], RunFolder]:
    """Return the last run that has each sample, by task id and sample id. Raises RunError if shards
    differ in questions, correct answers, pictures or task sizes."""
    sizes: dict[str, int] = {}
    latest: dict[tuple[str, str], RunFolder] = {}
    digests: dict[tuple[str, int | None], tuple[RunFolder, Mapping[str, str]]] = {}
    for run in runs:
        names = {point.task_id: point.task for point in run.points.values()}
        for task, digest in (run.facts.get("data") or {}).items():
            before, theirs = digests.setdefault((task, run.facts.get("limit")), (run, digest))
            differing = [part for part in digest if digest[part] != theirs.get(part)]
            if differing:  # with other samples, questions and correct answers differ as well
                what = "samples" if "samples" in differing else " and ".join(differing)
                raise RunError(
                    f"{run.path} was made with different {what} of {names.get(task, task)} than"
                    f" {before.path}; {MERGE_ADVICE}"
                )
        for task, size in (run.facts.get("samples") or {}).items():
            if sizes.setdefault(task, size) != size:
                raise RunError(
                    f"{run.path}: a task has {size} samples, but {sizes[task]} in an earlier"
                    f" shard; {MERGE_ADVICE}"
                )
        for task, rows in run.samples_by_task.items():
            for name in rows:
                if rival := latest.get((task, name)):
                    _refuse_other_sample(rival.samples_by_task[task][name], rows[name], run.path)
                latest[task, name] = run
    return latest


def _refuse_other_sample(before: SampleRow, row: SampleRow, path: Path) -> None:
    if (row.sha, row.answer) != (before.sha, before.answer):
        what = "sample" if row.sha != before.sha else "the correct answer of sample"
        raise RunError(f"{path}: {what} {row.id} differs from the earlier shards'; {MERGE_ADVICE}")
