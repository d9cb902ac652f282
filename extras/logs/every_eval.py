"""Formats for sharing results: Every Eval Ever, which is read and written, and Hugging Face's
`.eval_results`, which is only written."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from looktwice.eval.statistics.intervals import Estimate, share_interval
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.table_files import read_objects
from looktwice.extras.logs.log import (
    MISSING_VALUE,
    Cells,
    Fields,
    Log,
    NamedColumns,
    get_at_path,
    get_named_fields,
    make_rows,
)
from looktwice.pipelines.disk import dump_yaml, read_file, write_file
from looktwice.pipelines.json_input import read_json, write_json

SCHEMA_VERSION = "0.3.0"


def read_every_eval_ever(path: Path, named: NamedColumns) -> list[Log]:
    """Read a log of Every Eval Ever from its `.json`, next to which the instances lie, or from the
    `.jsonl` of the instances.

    Unreadable and failed instances are recognized by the `verdict` in their metadata, which
    looktwice writes, or by their `error`. Raises TaskError.
    """
    instances = path
    if path.suffix == ".json":
        details = read_json(read_file(path)).get("detailed_evaluation_results")
        file = details.get("file_path") if isinstance(details, dict) else details
        if not file:
            raise TaskError(f"{path} holds only scores and no instances, so there are no samples")
        instances = path.parent / Path(str(file)).name
    lines = [line for _, line in read_objects(instances)]
    if not lines:
        raise TaskError(f"{instances} holds no instances")
    try:
        rows = make_rows([_make_row(line) | get_named_fields(line, named) for line in lines])
        return [Log(str(lines[0]["model_id"]), rows, path.name, rows["task"].iloc[0])]
    except (KeyError, TypeError, AttributeError) as exc:
        raise TaskError(
            f"{instances} is not in Every Eval Ever's format ({type(exc).__name__}: {exc})"
        ) from exc


def _make_row(line: Cells) -> Fields:
    asked, metadata = line["input"], line.get("metadata") or {}
    parts = get_at_path(line, "answer_attribution")
    answers = [part for part in parts if part.get("is_terminal", True)]
    replies = get_at_path(line, "output", "raw")
    if not replies:
        replies = [get_at_path(message, "content") for message in get_at_path(line, "messages")]
    key, tokens = (
        get_at_path(asked, "reference"),
        (line.get("token_usage") or {}).get("total_tokens"),
    )
    verdict = str(get_at_path(metadata, "verdict") or ("failed" if line.get("error") else ""))
    return {
        "task": str(line["evaluation_name"]),
        "sample": str(line["sample_id"]),
        "draw": int(get_at_path(metadata, "draw") or 0),
        "question": str(asked["raw"]),
        "pictures": str(get_at_path(metadata, "pictures_sha256")),
        "choices": tuple(map(str, get_at_path(asked, "choices"))),
        "key": str(key) if isinstance(key, str) else " | ".join(map(str, key)),
        "answer": str(get_at_path(answers[-1], "extracted_value")) if answers else "",
        "value": (
            MISSING_VALUE if verdict in ("failed", "hidden") else float(line["evaluation"]["score"])
        ),
        "verdict": verdict,
        "group": str(get_at_path(metadata, "group")),
        "reply": str(replies[-1] if isinstance(replies, list) and replies else replies or ""),
        "tokens": MISSING_VALUE if tokens is None else float(tokens),
        "cost": float(get_at_path(metadata, "cost") or MISSING_VALUE),
    }


def write_every_eval_ever(log: Log, out: Path) -> Iterator[str]:
    """Write the log as `data/COLLECTION/DEVELOPER/MODEL/UUID.json` with its instances next to it;
    yield the path.

    The collection is the log's source. The contestant's name gives the developer and the model; if
    it names no developer, "looktwice" is written. Each instance holds the hashes of its pictures. A
    failed or unreadable instance has the score 0, since the format requires one, and its verdict in
    the metadata. Raises OSError.
    """
    developer, _, model = log.name.rpartition("/")
    names = log.source or "log", developer or "looktwice", model
    collection, developer, model = map(_simplify_value, names)
    now = str(int(datetime.now(UTC).timestamp()))
    ids = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{collection}/{developer}_{model}/{now}",
    }
    model_id = f"{developer}/{model}"
    lines = ""
    for row in log.rows.to_dict("records"):
        lines += write_json({**ids, "model_id": model_id, **_make_instance(row)}) + "\n"
    data = lines.encode(errors="backslashreplace")
    checksum = hashlib.sha256(data).hexdigest()
    name = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{ids['evaluation_id']} {checksum}"))
    folder = out / "data" / collection / developer / model
    results = {
        **ids,
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_name": log.source,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "looktwice", "version": version("looktwice")},
        "model_info": {
            "name": log.name,
            "id": model_id,
            "developer": developer,
            "additional_details": dict.fromkeys(
                ("deployment_type", "model_availability"), "unknown"
            ),
        },
        "evaluation_results": [_make_result(log, task) for task in dict.fromkeys(log.rows["task"])],
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"{name}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": checksum,
            "total_rows": len(log.rows),
        },
    }
    write_file(folder / f"{name}_samples.jsonl", data)
    write_file(folder / f"{name}.json", write_json(results) + "\n")
    yield str(folder / f"{name}.json")


def _simplify_value(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "unnamed"


def _format_share(log: Log, task: str) -> Estimate:
    scored = (log.units["task"] == task) & log.units["value"].notna()
    values = log.units["value"][scored].tolist()
    if not values:
        return Estimate(0.0, 0.0, 1.0, 0, 0)
    return share_interval(values, log.clusters[scored].tolist())


def _make_result(log: Log, task: str) -> Fields:
    share, method = _format_share(log, task), "Wilson"
    if share.clusters != share.n:
        method = f"Wilson, effective sample size of {share.clusters} clusters"
    interval = {"lower": share.low, "upper": share.high, "confidence_level": 0.95, "method": method}
    return {
        "evaluation_name": task or "task",
        "source_data": {"dataset_name": task or "task", "source_type": "other"},
        "metric_config": {
            "metric_id": "accuracy",
            "metric_unit": "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {
            "score": share.value,
            "uncertainty": {"confidence_interval": interval, "num_samples": share.n},
        },
    }


def _make_instance(row: Cells) -> Fields:
    metadata = {
        "verdict": row["verdict"],
        "pictures_sha256": row["pictures"],
        "group": row["group"],
        "draw": str(row["draw"]),
        "cost": str(row["cost"]) if row["cost"] == row["cost"] else "",
    }
    instance: Fields = {
        "evaluation_name": row["task"] or "task",
        "sample_id": row["sample"],
        "sample_hash": (
            hashlib.sha256(f"{row['question']}{row['key']}".encode(errors="replace")).hexdigest()
        ),
        "interaction_type": "single_turn",
        "input": {"raw": row["question"], "reference": [row["key"]] if row["key"] else []},
        "output": {"raw": [row["reply"]]},
        "answer_attribution": [],
        "evaluation": {
            "score": row["value"] if row["value"] == row["value"] else 0.0,
            "is_correct": row["verdict"] == "right",
        },
        "metadata": {name: value for name, value in metadata.items() if value},
    }
    if row["choices"]:
        instance["input"]["choices"] = list(row["choices"])
    if row["answer"]:
        instance["answer_attribution"] = [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": row["answer"],
                "is_terminal": True,
                "extraction_method": "custom",
            }
        ]
    if row["verdict"] == "failed":
        instance["error"] = row["reply"] or "the sample failed"
    return instance


def write_eval_results(log: Log, out: Path, dataset: str) -> Iterator[str]:
    """Write `.eval_results/looktwice_NAME.yaml` for a model's repository; yield its path.

    `dataset` is the benchmark's repository, and each task a `task_id`; values are in percent.
    Raises TaskError if `dataset` is not the name of a repository, and OSError.
    """
    if "/" not in dataset:
        raise TaskError(
            "--to eval-results needs the benchmark's repository, such as --dataset"
            " BLINK-Benchmark/BLINK"
        )
    entries = []
    for task in dict.fromkeys(log.rows["task"]):
        share = _format_share(log, task)
        ends = f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"
        clusters = f" in {share.clusters} clusters" if share.clusters < share.n else ""
        notes = (
            f"{share.n} samples{clusters}, 95 % interval {ends}; looktwice {version('looktwice')}"
        )
        about = {"id": dataset} | ({"task_id": task} if task else {})
        date = datetime.now(UTC).date().isoformat()
        entries.append(
            {"dataset": about, "value": round(100 * share.value, 2), "date": date, "notes": notes}
        )
    path = out / ".eval_results" / f"looktwice_{_simplify_value(log.name)}.yaml"
    write_file(path, dump_yaml(entries))
    yield str(path)
