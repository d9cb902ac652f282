"""Writes logs as inspect_ai's `.eval`, which Inspect View opens, without that package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from looktwice.eval.logs.log import Log
from looktwice.pipelines.disk import whole_file
from looktwice.pipelines.json_input import read_json, write_json
from looktwice.pipelines.model import Message, Messages

SCORER = "looktwice"
IN_SUMMARY = (
    "id",
    "epoch",
    "input",
    "choices",
    "target",
    "metadata",
    "scores",
    "model_usage",
    "error",
)
LETTERS = {"right": "C", "wrong": "I", "unreadable": "N"}


def write_inspect(log: Log, task: str, file: Path) -> int:
    """Write the samples of one task as one evaluation; gives how many.

    The contestant is the model. The last conversation of each sample is kept with its pictures,
    where the log holds them; an unreadable reply is inspect_ai's "no answer", a failed sample has
    an error and no score. Raises OSError.
    """
    rows = log.rows[log.rows["task"] == task].to_dict("records")
    summaries = []
    with whole_file(file) as out, ZipFile(out, "w", ZIP_DEFLATED) as archive:
        header = _header(log, task, rows)
        start = {"version": 2, "eval": header["eval"], "plan": header["plan"]}
        archive.writestr("_journal/start.json", write_json(start))
        for row in rows:
            said = (
                log.transcript(task, row["sample"], row["draw"])
                if log.transcript is not None
                else ()
            )
            sample = _sample(log.name, row, said)
            archive.writestr(f"samples/{_file_name(sample)}.json", write_json(sample))
            summaries.append(_summary(sample))
        archive.writestr("summaries.json", write_json(summaries))
        archive.writestr("header.json", write_json(header))
    return len(rows)


def _file_name(sample: Mapping[str, Any]) -> str:
    return f"{str(sample['id']).replace('/', '_')}_epoch_{sample['epoch']}"


def _header(log: Log, task: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    values = [row["value"] for row in rows if row["value"] == row["value"]]
    mean, now = sum(values) / max(1, len(values)), datetime.now(UTC).isoformat(timespec="seconds")
    spread = sqrt(
        sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1) / max(1, len(values))
    )
    metrics = {
        name: {"name": name, "value": value}
        for name, value in (("accuracy", mean), ("stderr", spread))
    }
    ids = list(dict.fromkeys(row["sample"] for row in rows))
    tokens = int(sum(row["tokens"] for row in rows if row["tokens"] == row["tokens"]))
    name = hashlib.sha256(f"{log.source} {log.name} {task}".encode()).hexdigest()[:22]
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": name,
            "run_id": name,
            "task_id": name,
            "created": now,
            "task": task or "task",
            "dataset": {"name": task, "samples": len(ids), "sample_ids": ids},
            "model": log.name,
            "config": {"epochs": 1 + max((row["draw"] for row in rows), default=0)},
            "metadata": {"log": log.source, "written_by": "looktwice"},
        },
        "plan": {"name": "plan", "steps": []},
        "results": {
            "total_samples": len(rows),
            "completed_samples": len(values),
            "scores": [{"name": SCORER, "scorer": SCORER, "metrics": metrics}],
        },
        "stats": {
            "started_at": now,
            "completed_at": now,
            "model_usage": {log.name: {"total_tokens": tokens}},
        },
    }


def _sample(model: str, row: Mapping[str, Any], said: Messages) -> dict[str, Any]:
    attachments: dict[str, str] = {}
    messages = [_message(message, attachments) for message in said]
    asked = messages[:-1] if messages and messages[-1]["role"] == "assistant" else messages
    reply = {"role": "assistant", "content": row["reply"], "source": "generate"}
    failed, metadata = (
        row["verdict"] == "failed",
        {name: row[name] for name in ("task", "group", "pictures", "verdict")},
    )
    score = {
        "value": LETTERS.get(row["verdict"], row["value"]),
        "answer": row["answer"],
        "explanation": row["verdict"],
    }
    sample = {
        "id": row["sample"],
        "epoch": row["draw"] + 1,
        "input": asked or row["question"],
        "choices": list(row["choices"]) or None,
        "target": row["key"],
        "messages": messages or [{"role": "user", "content": row["question"]}, reply],
        "output": {
            "model": model,
            "choices": [{"message": reply, "stop_reason": "stop"}],
            "completion": row["reply"],
        },
        "scores": {} if failed or row["verdict"] == "hidden" else {SCORER: score},
        "metadata": metadata,
        "attachments": attachments,
    }
    if failed:
        text = row["reply"] or "the sample failed"
        sample["error"] = {"message": text, "traceback": "", "traceback_ansi": ""}
    if row["tokens"] == row["tokens"]:
        sample["model_usage"] = {model: {"total_tokens": int(row["tokens"])}}
        if row["cost"] == row["cost"]:
            sample["model_usage"][model]["total_cost"] = row["cost"]
    return sample


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """What stands of a sample in the list of all: no pictures, and the error's message alone."""
    held = {name: sample[name] for name in IN_SUMMARY if name in sample}
    if "error" in held:
        held["error"] = held["error"]["message"]
    if isinstance(held["input"], list):
        held["input"] = [
            {**message, "content": list(_without_pictures(message))} for message in held["input"]
        ]
    return {**held, "completed": True, "message_count": len(sample["messages"])}


def _without_pictures(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    parts = message["content"]
    for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
        yield {"type": "text", "text": "(Image)"} if part["type"] == "image" else part


def _message(message: Message, attachments: dict[str, str]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        else:
            payload = part.picture.payload
            attachments[payload.sha[:32]] = payload.data_url
            parts.append({"type": "image", "image": f"attachment://{payload.sha[:32]}"})
    told: dict[str, Any] = {"role": message.role, "content": parts}
    if message.role in ("assistant", "system"):
        told["content"] = message.text
    if message.tool_calls:
        told["tool_calls"] = [
            {"id": call.id, "function": call.name, "arguments": _arguments(call.arguments)}
            for call in message.tool_calls
        ]
    return told | ({"tool_call_id": message.call_id} if message.call_id else {})


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = read_json(text)
    except (ValueError, json.JSONDecodeError):
        return {"arguments": text}
    return found if isinstance(found, dict) else {"arguments": found}
