"""Describes the reply cache and prunes it: unused replies are removed, oldest first."""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from looktwice.eval.recorded.replay import RecordedRun
from looktwice.eval.records.records import RunError
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.models.cache import Store, StoredReply

MIN_AGE_SECONDS = 3600.0  # younger replies may not be in a record yet
SIZE_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def report_cache(folder: Path, runs: Path, prune: str | None) -> Iterator[str]:
    """Yield lines that describe a cache; if `prune` is a size such as "2GB", the cache is pruned
    first. Raises RunError, CacheError."""
    if not (folder / "replies.sqlite").is_file():
        if any(runs.glob("*/points.yaml")):
            yield (
                f"{folder}: no replies; those of models without a server or weights, such as"
                " Pocket, are not stored, because they are quick to recompute"
            )
            return
        raise RunError(
            f"{folder} contains no replies.sqlite; give the folder of the runs, or --cache"
        )
    store = Store(folder, "--cache")
    if prune is not None:
        yield prune_cache(store, runs, parse_size(prune))
    yield from describe_cache(store)


def limit_cache(folder: Path, runs: Path, most: int | None) -> Iterator[str]:
    """Prune a cache that exceeds `most` bytes, if that limit is set, and report it. Raises
    RunError, CacheError."""
    if most is not None and (folder / "replies.sqlite").is_file():
        store = Store(folder, "--cache")
        if sum(row.size for row in store.iterate_rows()) > most:
            yield f"cache: {prune_cache(store, runs, most)}"


def parse_size(text: str) -> int:
    """Parse a size such as "500MB", "2 GB" or "0" into bytes. Raises RunError."""
    size = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)b?\s*", text, re.IGNORECASE)
    if not size:
        raise RunError(f"a size must be a number with a unit, such as 500MB or 2GB; found {text!r}")
    return int(float(size[1]) * SIZE_UNITS[size[2].lower()])


def describe_cache(store: Store) -> Iterator[str]:
    """Yield lines with the number of replies of each model, their size, and their dates."""
    rows = list(store.iterate_rows())
    yield f"{store.folder}: {_describe_replies(rows)}"
    by_model = defaultdict[str, list[StoredReply]](list)
    for row in rows:
        by_model[row.model].append(row)
    for model, own in sorted(by_model.items(), key=lambda group: -len(group[1])):
        days = sorted(datetime.fromtimestamp(row.stored_at, UTC).date() for row in own)
        when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
        node = _parse_identity(model)
        parts = node.get("model") or node.get("use"), node.get("endpoint") or node.get("name")
        name = " at ".join(str(part) for part in parts if part) or model[:80]
        yield f"  {name}: {_describe_replies(own)}, {when}"


def prune_cache(store: Store, runs: Path, most: int) -> str:
    """Remove replies until the cache holds at most `most` bytes, and return a sentence about it.

    Only replies that are older than an hour and not used by the latest records of the runs in
    `runs` are removed, oldest first. Replies of judges, and replies for samples at which a run was
    stopped, are used by no record. Raises RunError for a run that cannot be read.
    """
    rows = sorted(store.iterate_rows(), key=lambda row: row.stored_at)
    if not any(runs.glob("*/points.yaml")):
        raise RunError(
            f"{runs} contains no runs; the records of the runs decide which replies are kept, so"
            " name the folder that contains the runs"
        )
    used, removed = _list_used_keys(runs, {row.model for row in rows}), list[StoredReply]()
    total = sum(row.size for row in rows)
    for row in rows:
        if total > most and row.key not in used and time.time() - row.stored_at > MIN_AGE_SECONDS:
            removed.append(row)
            total -= row.size
    store.remove(removed)
    kept = format_count(len(rows) - len(removed), "reply", "replies")
    sentence = f"removed {_describe_replies(removed)}; {kept} left"
    if total > most:
        sentence += (
            f", {_format_size(total)}: the rest is used by records in {runs} or"
            " younger than an hour"
        )
    return sentence


def _list_used_keys(runs: Path, models: set[str]) -> set[str]:
    """Return the keys of all requests in the records of all runs, for each of these models that an
    arm may have called."""
    keys = set[str]()
    for path in sorted(runs.glob("*/points.yaml")):
        run = RecordedRun(path.parent)
        for record in run.folder.last_records():
            point = run.folder.points.get(record.point)
            # a served arm's model may have depended on the environment
            node = point.spec.get("model") if point else None
            name = node.get("model") if isinstance(node, Mapping) else None
            own = {
                m for m in models if name is None or _parse_identity(m).get("model", name) == name
            }
            for call in record.calls:
                asked = {call["model"]} if call.get("model") else own
                keys |= {run.digest_call(call, model=model) for model in asked}
    return keys


def _parse_identity(identity: str) -> Mapping[str, Any]:
    with suppress(ValueError):
        node = json.loads(identity)
        return node if isinstance(node, dict) else {}
    return {}


def _describe_replies(rows: Sequence[StoredReply]) -> str:
    return (
        f"{format_count(len(rows), 'reply', 'replies')},"
        f" {_format_size(sum(row.size for row in rows))}"
    )


def _format_size(size: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size / 1e3:,.1f} kB"
