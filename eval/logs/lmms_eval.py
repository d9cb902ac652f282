"""lmms-eval's samples in JSON lines, read and written."""

from __future__ import annotations

import re
from pathlib import Path

from looktwice.eval.logs.log import (
    NOTHING,
    UNSCORED,
    Cells,
    Fields,
    Log,
    Named,
    letter_or_text,
    make_rows,
    named_fields,
    parse_value,
    told,
)
from looktwice.eval.replies import HIDDEN
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.table_files import read_objects
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.json_input import write_json

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
SAMPLES = "*_samples_*.jsonl"


def read_lmms_eval(path: Path, named: Named) -> list[Log]:
    """The log of a file of samples, or of a folder that holds a file for each task; the folder's
    name is the model's.

    `value` names the metric whose record counts; the first that says what is right is the default.
    Raises TaskError.
    """
    files, rows, task = sorted(path.glob(SAMPLES)) if path.is_dir() else [path], [], ""
    for file in files:
        task = re.sub(r"^.*_samples_", "", file.name.removesuffix(".gz").removesuffix(".jsonl"))
        for number, line in read_objects(file):
            try:
                row = _row(line, task, named.get("value", ""))
                rows.append(row | named_fields(line, named))
            except TaskError as exc:
                raise TaskError(f"{file} line {number}: {exc}") from exc
    if not rows:
        raise TaskError(f"{files[0]} holds no sample")
    name = files[0].resolve().parent.name if "_samples_" in files[0].name else task
    return [Log(name, make_rows(rows), files[0].name, task if len(files) == 1 else "")]


def _row(line: Cells, task: str, metric: str) -> Fields:
    if "doc" not in line and "doc_id" not in line:
        raise TaskError(
            f"expected lmms-eval's samples with doc_id, found {', '.join(sorted(line))}"
        )
    doc = line["doc"] if isinstance(line.get("doc"), dict) else {}
    value, answer, judged = _metric_of(line, metric)
    reply = told(line, "resps") or told(line, "filtered_resps")
    while isinstance(reply, list):
        reply = reply[0] if reply else ""
    choices = doc.get("choices") if isinstance(doc.get("choices"), list) else ()
    ids = (doc.get("idx"), judged.get("id"), judged.get("question_id"), line.get("doc_id"))
    key = str(told(doc, "answer") or told(line, "target"))
    return {
        "task": str(judged.get("sub_task") or doc.get("sub_task") or task),
        "sample": str(next((name for name in ids[:3] if name), ids[3])),
        "question": str(told(doc, "question") or told(line, "input")),
        "choices": tuple(map(str, choices or ())),
        "key": "" if key == HIDDEN else key,
        "answer": answer,
        "value": NOTHING if key == HIDDEN else value,
        "verdict": "hidden" if key == HIDDEN else UNSCORED if value != value else "",
        "reply": str(reply),
    }


def _metric_of(line: Cells, metric: str) -> tuple[float, str, Cells]:
    """The value, the answer and the whole record of a metric."""
    names = [name for name in line if name not in NO_METRIC]
    if metric and metric not in names:
        raise TaskError(f"no metric is named {metric!r}; there are {', '.join(names) or 'none'}")
    for name in [metric] if metric else names:
        record = line[name] if isinstance(line[name], dict) else {CORRECT[0]: line[name]}
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
            f"doc_id {line.get('doc_id')}: nothing says whether it is right; name --column"
            " value=METRIC"
        )
    return NOTHING, "", {}


def write_lmms_eval(log: Log, file: Path) -> int:
    """Write the rows as lmms-eval's samples of BLINK; gives how many. Raises OSError."""
    lines = []
    for number, row in enumerate(log.rows.to_dict("records")):
        key, answer = row["key"].strip("()"), row["answer"].strip("()")
        shown = f"({key})" if key else HIDDEN
        doc = {
            "idx": row["sample"],
            "question": row["question"],
            "sub_task": row["task"],
            "choices": list(row["choices"]),
            "answer": shown,
        }
        judged = {
            "id": row["sample"],
            "gt_content": key,
            "pred_parsed": answer,
            "pred": row["reply"],
            "sub_task": row["task"],
            "is_correct": bool(key) and key == answer,
        }
        sample = {"doc_id": number, "doc": doc, "target": shown, "resps": [[row["reply"]]]}
        lines.append(sample | {"filtered_resps": [row["reply"]], "blink_acc": judged})
    write_file(file, "".join(f"{write_json(line)}\n" for line in lines))
    return len(lines)
