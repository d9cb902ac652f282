"""Writes logs in the formats in which results are shared: Every Eval Ever, and Hugging Face's
`.eval_results`."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from looktwice.eval.logs.log import Log
from looktwice.eval.statistics.intervals import Estimate, share_interval
from looktwice.pipelines.config.yaml_input import dump_yaml
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.json_input import write_json

SCHEMA = "0.3.0"


def write_every_eval_ever(log: Log, out: Path) -> Path:
    """Write the log as `data/COLLECTION/DEVELOPER/MODEL/UUID.json` with its instances beside it;
    gives the path.

    The collection is the log's source, the developer and the model are the contestant's name,
    "looktwice" being the developer of a name without one. Each instance holds the hashes of its
    pictures; a failed or unreadable one has the score 0, which the format needs, and its verdict in
    the metadata. Raises OSError.
    """
    developer, _, model = log.name.rpartition("/")
    collection, developer, model = (
        _plain(name) for name in (log.source or "log", developer or "looktwice", model)
    )
    now = str(int(datetime.now(UTC).timestamp()))
    about, model_id = f"{collection}/{developer}_{model}/{now}", f"{developer}/{model}"
    lines = "".join(
        f"{write_json(_instance(row, about, model_id))}\n" for row in log.rows.to_dict("records")
    )
    data = lines.encode(errors="backslashreplace")
    name = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{about} {hashlib.sha256(data).hexdigest()}"))
    folder = out / "data" / collection / developer / model
    held = {
        "schema_version": SCHEMA,
        "evaluation_id": about,
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
        "evaluation_results": [_result(log, task) for task in dict.fromkeys(log.rows["task"])],
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"{name}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(data).hexdigest(),
            "total_rows": len(log.rows),
        },
    }
    write_file(folder / f"{name}_samples.jsonl", data)
    write_file(folder / f"{name}.json", write_json(held) + "\n")
    return folder / f"{name}.json"


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "unnamed"


def _share(log: Log, task: str) -> Estimate:
    scored = (log.units["task"] == task) & log.units["value"].notna()
    values = log.units["value"][scored].tolist()
    return (
        share_interval(values, log.clusters[scored].tolist())
        if values
        else Estimate(0.0, 0.0, 1.0, 0, 0)
    )


def _result(log: Log, task: str) -> dict[str, Any]:
    share = _share(log, task)
    method = (
        "Wilson"
        if share.clusters == share.n
        else f"Wilson, effective sample size of {share.clusters} clusters"
    )
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


def _instance(row: Mapping[str, Any], about: str, model_id: str) -> dict[str, Any]:
    scored = row["value"] == row["value"]
    told = {"verdict": row["verdict"], "pictures_sha256": row["pictures"], "group": row["group"]}
    told |= {"draw": str(row["draw"])} | (
        {"cost": str(row["cost"])} if row["cost"] == row["cost"] else {}
    )
    instance: dict[str, Any] = {
        "schema_version": SCHEMA,
        "evaluation_id": about,
        "model_id": model_id,
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
            "score": row["value"] if scored else 0.0,
            "is_correct": row["verdict"] == "right",
        },
        "metadata": {name: value for name, value in told.items() if value},
    }
    if row["choices"]:
        instance["input"]["choices"] = list(row["choices"])
    if row["answer"]:
        read = {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": row["answer"],
            "is_terminal": True,
        }
        instance["answer_attribution"] = [{**read, "extraction_method": "custom"}]
    if row["verdict"] == "failed":
        instance["error"] = row["reply"] or "the sample failed"
    return instance


def write_eval_results(log: Log, dataset: str, out: Path) -> Path:
    """Write `.eval_results/looktwice_NAME.yaml` of a model's repository; gives the path.

    `dataset` is the benchmark's repository, each task its `task_id`; values are percent. Raises
    OSError.
    """

    entries = []
    for task in dict.fromkeys(log.rows["task"]):
        share = _share(log, task)
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
    path = out / ".eval_results" / f"looktwice_{_plain(log.name)}.yaml"
    write_file(path, dump_yaml(entries))
    return path
