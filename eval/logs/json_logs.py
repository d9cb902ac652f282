"""Logs in JSON lines: lmms-eval's samples and the instances of Every Eval Ever."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from looktwice.eval.logs.log import NOTHING, UNSCORED, Log, letter_or_text, parse_value, rows_of
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.table_files import read_objects
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.json_input import read_json

NO_METRIC = {
    "doc_id",
    "doc",
    "target",
    "arguments",
    "input",
    "resps",
    "filtered_resps",
    "token_counts",
    "doc_hash",
    "input_media",
    "input_hash",
    "target_hash",
    "prompt_hash",
}
"""The fields of lmms-eval's samples that are no metric's own record."""
CORRECT = ("is_correct", "correct", "hit", "score", "acc", "accuracy")
PAIRS = (
    ("pred_parsed", "gt_content"),
    ("parsed_pred", "answer"),
    ("pred", "gt"),
    ("prediction", "answer"),
)
"""The fields of a metric's record that hold the answer and the key, where it has no field of
CORRECT."""


def read_lmms_eval(paths: Iterable[Path], metric: str = "") -> Log:
    """The log of lmms-eval's samples, a file for each task; the folder's name is the model's.

    `metric` names the field whose record counts; the first that says what is right is the default.
    Raises TaskError.
    """
    files, records = list(paths), []
    for path in files:
        task = re.sub(r"^.*_samples_", "", path.name.removesuffix(".gz").removesuffix(".jsonl"))
        for _, line in read_objects(path):
            try:
                records.append(_sample_row(line, task, metric))
            except TaskError as exc:
                raise TaskError(f"{path}: {exc}") from exc
    if not records:
        raise TaskError(f"{files[0]} holds no sample")
    parent = files[0].resolve().parent.name
    name = parent if "_samples_" in files[0].name else task
    return Log(name, rows_of(records), files[0].name, task if len(files) == 1 else "")


def _sample_row(line: Mapping[str, Any], task: str, metric: str) -> dict[str, Any]:
    if "doc_id" not in line:
        raise TaskError(
            f"expected lmms-eval's samples with doc_id, found {', '.join(sorted(line))}"
        )
    doc = line["doc"] if isinstance(line.get("doc"), dict) else {}
    value, answer, judged = _metric_of(line, metric)
    reply = line.get("filtered_resps") or line.get("resps") or ""
    while isinstance(reply, list):
        reply = reply[0] if reply else ""
    choices = doc.get("choices") if isinstance(doc.get("choices"), list) else ()
    return {
        "task": str(judged.get("sub_task") or doc.get("sub_task") or task),
        "sample": str(
            doc.get("idx") or judged.get("id") or judged.get("question_id") or line["doc_id"]
        ),
        "question": str(doc.get("question") or line.get("input") or ""),
        "choices": tuple(map(str, choices or ())),
        "key": str(doc.get("answer") or line.get("target") or ""),
        "answer": answer,
        "value": value,
        "verdict": UNSCORED if value != value else "",
        "reply": str(reply),
    }


def _metric_of(line: Mapping[str, Any], metric: str) -> tuple[float, str, Mapping[str, Any]]:
    """The value, the answer and the whole record of a metric."""
    names = [name for name in line if name not in NO_METRIC]
    if metric and metric not in names:
        raise TaskError(f"no metric is named {metric!r}; there are {', '.join(names) or 'none'}")
    for name in [metric] if metric else names:
        held = line[name]
        record = held if isinstance(held, dict) else {CORRECT[0]: held}
        answer, key = next(
            ((record[a], record[k]) for a, k in PAIRS if a in record and k in record), ("", None)
        )
        for field in CORRECT:
            if (value := parse_value(record.get(field))) == value:
                return value, str(answer), record
        if key is not None:
            return float(letter_or_text(answer) == letter_or_text(key)), str(answer), record
    if metric or not (line.get("resps") or line.get("filtered_resps")):
        raise TaskError(
            f"doc_id {line['doc_id']}: nothing says whether it is right; name --column value=METRIC"
        )
    return NOTHING, "", {}


def read_every_eval_ever(path: Path) -> Log:
    """The log of Every Eval Ever's `.json`, with its instances beside it, or of the `.jsonl` of
    instances alone.

    An unreadable or failed instance is known by its metadata's `verdict`, where we wrote it, or by
    its `error`. Raises TaskError.
    """
    held = path
    if path.suffix == ".json":
        about = read_json(read_file(path))
        details = about.get("detailed_evaluation_results")
        file = details.get("file_path") if isinstance(details, dict) else details
        if not file:
            raise TaskError(f"{path} holds scores alone, no instances: there is nothing to pair")
        held = path.parent / Path(str(file)).name
    try:
        records = [_instance_row(line) for _, line in read_objects(held)]
    except (KeyError, TypeError, AttributeError) as exc:
        raise TaskError(
            f"{held} is not in the form of Every Eval Ever ({type(exc).__name__}: {exc})"
        ) from exc
    if not records:
        raise TaskError(f"{held} holds no instance")
    return Log(records[0].pop("model"), rows_of(records), path.name, str(records[0]["task"]))


def _instance_row(line: Mapping[str, Any]) -> dict[str, Any]:
    told, metadata = line["evaluation"], line.get("metadata") or {}
    answers = [one for one in line.get("answer_attribution") or () if one.get("is_terminal", True)]
    usage, references = line.get("token_usage") or {}, line["input"].get("reference") or ()
    said = (line.get("output") or {}).get("raw") or [
        m.get("content") or "" for m in line.get("messages") or ()
    ][-1:]
    verdict = str(metadata.get("verdict") or ("failed" if line.get("error") else ""))
    return {
        "model": str(line["model_id"]),
        "task": str(line["evaluation_name"]),
        "sample": str(line["sample_id"]),
        "draw": int(metadata.get("draw") or 0),
        "question": str(line["input"]["raw"]),
        "pictures": str(metadata.get("pictures_sha256") or ""),
        "choices": tuple(map(str, line["input"].get("choices") or ())),
        "key": str(references) if isinstance(references, str) else " | ".join(map(str, references)),
        "answer": str(answers[-1].get("extracted_value") or "") if answers else "",
        "value": NOTHING if verdict in ("failed", "hidden") else float(told["score"]),
        "verdict": verdict,
        "group": str(metadata.get("group") or ""),
        "reply": str(said[-1] if isinstance(said, list) and said else said or ""),
        "tokens": (
            float(usage["total_tokens"]) if usage.get("total_tokens") is not None else NOTHING
        ),
        "cost": float(metadata["cost"]) if metadata.get("cost") else NOTHING,
    }
