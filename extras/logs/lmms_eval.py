"""Functions that read the samples of lmms-eval and lm-evaluation-harness, which are JSON lines, and
write those of lmms-eval."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from looktwice.eval.replies import HIDDEN_ANSWER
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.table_files import read_objects
from looktwice.extras.logs.log import (
    LMMS_EVAL_HARNESS,
    MISSING_VALUE,
    UNSCORED,
    Cells,
    Fields,
    Grade,
    Log,
    NamedColumns,
    get_at_path,
    get_named_fields,
    make_rows,
    normalize_answer,
    parse_value,
)
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.json_input import write_json

NON_METRIC_FIELDS = {
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
    "filter",
    "metrics",
}
"""The fields of a sample that do not hold the record of a metric."""
NO_FILTER_NAMES = ("", "none")
EMPTY_REPLIES = ([[""]], [""], [[None]], [None])
INVALID_RESULT = "[invalid]"  # the result of an lm-eval filter that finds no answer
CORRECT_FIELDS = ("is_correct", "correct", "hit", "score", "acc", "accuracy")
ANSWER_FIELD_PAIRS = (
    ("pred_parsed", "gt_content"),
    ("parsed_pred", "answer"),
    ("pred", "gt"),
    ("prediction", "answer"),
)
"""Fields of a metric's record that hold the answer and the correct answer; they are used if the
record has none of CORRECT_FIELDS."""
SAMPLE_FILE_GLOB = "*samples_*.jsonl"
"""A glob pattern for lmms-eval's DATE_samples_TASK.jsonl and lm-eval's samples_TASK_DATE.jsonl."""
TASK_PATTERN = re.compile(
    r"(?:.*_|)samples_(.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?(?:\.jsonl)?(?:\.gz)?"
)


def read_lmms_eval(path: Path, named: NamedColumns) -> list[Log]:
    """Read the log from a file of samples, or from a folder with a file for each task.

    The folder's name is the model's name. lm-eval writes a line for each filter of a sample, and
    each `metric,filter` is a separate scorer; the filter "none" is left out of the scorer's name.
    The entry for `value` in `named` names the metric or scorer that counts; the default is the
    first one that tells right from wrong. Raises TaskError.
    """
    files, rows, task = (
        sorted(path.glob(SAMPLE_FILE_GLOB)) if path.is_dir() else [path],
        list[Fields](),
        "",
    )
    for file in files:
        named_so = TASK_PATTERN.fullmatch(file.name)
        task = named_so[1] if named_so else file.name.removesuffix(".gz").removesuffix(".jsonl")
        samples = dict[str, list[_Sample]]()
        for number, line in read_objects(file):
            try:
                _add_line(samples.setdefault(_get_id(line), []), line, task, named)
            except TaskError as exc:
                raise TaskError(f"{file} line {number}: {exc}") from exc
        every = [sample for draws in samples.values() for sample in draws]
        if every and "value" in named and not any(sample.grades for sample in every):
            filters = ", ".join(dict.fromkeys(name for each in every for name in each.filters))
            raise TaskError(f"{file}: no scorer is named {named['value']!r}; filters: {filters}")
        counts_tokens = any(sample.tokens for sample in every)
        for draws in samples.values():
            for draw, sample in enumerate(draws):
                rows.append(sample.row | {"draw": draw} | _grade_sample(sample, counts_tokens))
    if not rows:
        raise TaskError(f"{files[0]} holds no samples")
    name = files[0].resolve().parent.name if TASK_PATTERN.fullmatch(files[0].name) else task
    log = Log(name, make_rows(rows), files[0].name, task if len(files) == 1 else "")
    return [replace(log, harness=LMMS_EVAL_HARNESS)]


@dataclass
class _Sample:
    """One reply to one document: its row, the replies and tokens of its line, the filters that
    parsed it, and its grades by scorer."""

    row: Fields
    replies: str
    tokens: int | None
    filters: list[str] = field(default_factory=list)
    grades: dict[str, Grade] = field(default_factory=dict)


def _get_id(line: Cells) -> str:
    if "doc" not in line and "doc_id" not in line:
        raise TaskError(
            f"expected lmms-eval's samples with doc_id, found {', '.join(sorted(line))}"
        )
    return write_json([line.get("doc_id"), line.get("doc_hash") or line.get("doc")])


def _add_line(draws: list[_Sample], line: Cells, task: str, named: NamedColumns) -> None:
    """Add a line to the replies to one document: as another filter's grade of an earlier reply, or
    as a new reply."""
    replies, name = write_json(line.get("resps")), str(line.get("filter") or "")
    sample = next((s for s in draws if s.replies == replies and name not in s.filters), None)
    if not name and sample is None:
        sample = next((s for s in draws if s.replies == replies), None)
        if sample is not None:
            name = f"filter {len(sample.filters) + 1}"  # lmms-eval does not write its name
    own = "" if name in NO_FILTER_NAMES else name
    grades, judged = _list_grades(line, own, named.get("value", ""))
    if sample is None:
        row = _make_row(line, task, judged) | get_named_fields(line, named)
        sample = _Sample(row, replies, _count_tokens(line))
        draws.append(sample)
    sample.filters.append(name)
    sample.grades |= grades


def _count_tokens(line: Cells) -> int | None:
    """Return the number of tokens of the reply, or None if the line does not record it."""
    counts = line.get("token_counts") or [None]
    written = counts[0] if isinstance(counts, list) else counts
    return written.get("output_tokens") if isinstance(written, dict) else None


def _grade_sample(sample: _Sample, counts_tokens: bool) -> Fields:
    """Return the columns that the sample's first scorer determines.

    An empty reply without a token count counts as a failed request if other replies have token
    counts.
    """
    if not sample.row["reply"] and counts_tokens and not sample.tokens:
        return {"value": MISSING_VALUE, "verdict": "failed"}
    name, grade = next(iter(sample.grades.items()), ("", None))
    if grade is None:
        return {}
    if sample.row["verdict"] == "hidden":
        return {"answer": grade.answer}
    return {**grade._asdict(), "scorer": name, "scores": sample.grades}


def _make_row(line: Cells, task: str, judged: Cells) -> Fields:
    doc = line["doc"] if isinstance(line.get("doc"), dict) else {}
    reply = get_at_path(line, "resps") or get_at_path(line, "filtered_resps")
    while isinstance(reply, list):
        reply = reply[0] if reply else ""
    choices = doc.get("choices") if isinstance(doc.get("choices"), list) else ()
    ids = (doc.get("idx"), judged.get("id"), judged.get("question_id"), line.get("doc_id"))
    key = str(get_at_path(doc, "answer") or get_at_path(line, "target"))
    return {
        "task": str(judged.get("sub_task") or doc.get("sub_task") or task),
        "sample": str(next((name for name in ids[:3] if name), ids[3])),
        "question": str(get_at_path(doc, "question") or get_at_path(line, "input")),
        "choices": tuple(map(str, choices or ())),
        "key": "" if key == HIDDEN_ANSWER else key,
        "answer": "",
        "value": MISSING_VALUE,
        "verdict": "hidden" if key == HIDDEN_ANSWER else UNSCORED,
        "reply": "" if reply is None else str(reply),
        "scorer": "",
        "scores": {},
    }


def _list_grades(line: Cells, filter_name: str, metric: str) -> tuple[dict[str, Grade], Cells]:
    """Return the grade of each metric, in the order in which the line lists them, and the record of
    the first metric."""
    names = [name for name in line if name not in NON_METRIC_FIELDS]
    scorers = {name: f"{name},{filter_name}".rstrip(",") for name in names}
    wanted = [name for name in names if metric in ("", name, scorers[name])]
    if not wanted and metric and metric.partition(",")[0] not in names:
        raise TaskError(
            f"no metric is named {metric!r}; the metrics are {', '.join(names) or 'none'}"
        )
    grades, judged = dict[str, Grade](), dict[str, Any]()
    for name in wanted:
        record = line[name] if isinstance(line[name], dict) else {CORRECT_FIELDS[0]: line[name]}
        grade = _read_grade(record, line)
        # a grade outside 0..1 is an error only for the first metric; others are skipped
        if grade is not None and (not grades or 0 <= grade.value <= 1):
            grades[scorers[name]] = grade
            judged = judged or record
    if not grades and (
        (metric and wanted) or not (line.get("resps") or line.get("filtered_resps"))
    ):
        raise TaskError(
            f"doc_id {line.get('doc_id')}: no metric says whether it is right; name one with"
            " --column value=METRIC"
        )
    return grades, judged


def _read_grade(record: Cells, line: Cells) -> Grade | None:
    """Return the grade in a metric's record, or None if the metric does not tell right from
    wrong."""
    pairs = ((record[a], record[k]) for a, k in ANSWER_FIELD_PAIRS if a in record and k in record)
    parsed, key = next(pairs, (None, None))
    answer = None if parsed is None else str(parsed)
    if line.get("resps") in EMPTY_REPLIES or line.get("filtered_resps") == [INVALID_RESULT]:
        answer = ""
    for name in CORRECT_FIELDS:
        if (value := parse_value(record.get(name))) == value:
            return Grade.from_value(value, answer)
    if key is not None:
        return Grade.from_value(float(normalize_answer(parsed) == normalize_answer(key)), answer)
    return None


def write_lmms_eval(log: Log, file: Path) -> int:
    """Write the rows as lmms-eval's samples of BLINK; return their number. Raises OSError."""
    lines = []
    for number, row in enumerate(log.rows.to_dict("records")):
        key, answer = row["key"].strip("()"), row["answer"].strip("()")
        shown = f"({key})" if key else HIDDEN_ANSWER
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
