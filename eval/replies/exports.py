"""Writes scored replies in the formats of others: EvalAI, VLMEvalKit's table, lmms-eval's
samples."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.records.records import refuse_run_file
from looktwice.eval.replies.files import HIDDEN, subtask_of_idx
from looktwice.eval.replies.scored import ScoredReply
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.disk import whole_file, write_file

FORMATS: Mapping[str, str] = {
    ".json": "the EvalAI submission: an object from idx to '(X)'",
    ".tsv": "VLMEvalKit's table of predictions",
    ".xlsx": "the same for Excel",
    ".jsonl": "lmms-eval's samples",
}
_LONGEST = 32_767  # characters that a cell of Excel holds


def export(rows: Sequence[ScoredReply], file: Path) -> int:
    """Write the rows in the format of the file's ending (see FORMATS); gives how many. Raises
    TaskError, RunError."""
    refuse_run_file(file)
    if file.suffix not in FORMATS:
        known = "; ".join(f"{ending} {what}" for ending, what in FORMATS.items())
        raise TaskError(f"--export {file}: the format follows from the ending: {known}")
    if file.suffix == ".json":
        chosen = evalai(rows)
        write_file(file, json.dumps(chosen, indent=1) + "\n")
        return len(chosen)
    if file.suffix == ".jsonl":
        lines = (
            json.dumps(_lmms_eval_sample(number, row), ensure_ascii=False)
            for number, row in enumerate(rows)
        )
        write_file(file, "".join(f"{line}\n" for line in lines))
        return len(rows)
    table = _vlmevalkit_table(rows)
    if file.suffix == ".tsv":
        text = StringIO(newline="")
        csv.writer(text, delimiter="\t").writerows(table)
        write_file(file, text.getvalue())
    else:
        _write_xlsx(table, file)
    return len(rows)


def evalai(rows: Sequence[ScoredReply]) -> dict[str, str]:
    """idx -> "(X)", "(Z)" without an answer; as EvalAI wants it, only the items of the split test
    if there are any."""
    tested = [row for row in rows if row.recorded.idx.startswith("test_")]
    return {row.recorded.idx: row.answer or "(Z)" for row in tested or rows}


def _vlmevalkit_table(rows: Sequence[ScoredReply]) -> list[list[str]]:
    most = max((len(row.recorded.choices) for row in rows), default=0)
    letters = list(ascii_uppercase[:most])
    table = [["index", "split", "category", "question", *letters, "answer", "prediction", "read"]]
    for row in rows:
        recorded = row.recorded
        texts = [*recorded.choices, *[""] * (most - len(recorded.choices))]
        read = (row.answer or "(Z)").strip("()")
        split = recorded.idx.partition("_")[0] if subtask_of_idx(recorded.idx) else "none"
        place = [recorded.idx, split, recorded.subtask, recorded.question]
        table.append([*place, *texts, row.key.strip("()"), recorded.reply, read])
    return table


def _write_xlsx(table: Sequence[Sequence[str]], file: Path) -> None:
    try:
        from openpyxl import Workbook
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE, WriteOnlyCell
    except ImportError as exc:
        raise TaskError(
            f"{file}: writing .xlsx needs openpyxl; type `pip install openpyxl`, or use .tsv"
        ) from exc
    long = [row[0] for row in table if any(len(cell) > _LONGEST for cell in row)]
    if long:
        raise TaskError(
            f"{file}: {len(long)} rows, first {long[0]}, are longer than a cell of Excel holds; use"
            " .tsv"
        )
    book = Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    for row in table:
        cells = [WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", text)) for text in row]
        for cell in cells:
            cell.data_type = "s"  # a reply that begins like a formula is still a text
        if (
            row[0].isdecimal() and str(int(row[0])) == row[0]
        ):  # VLMEvalKit's own scorer looks for the number
            cells[0].value = int(row[0])
        sheet.append(cells)
    with whole_file(file) as out:
        book.save(out)


def _lmms_eval_sample(number: int, row: ScoredReply) -> dict[str, Any]:
    recorded, letter, gold = row.recorded, (row.answer or "").strip("()"), row.key.strip("()")
    doc = {
        "idx": recorded.idx,
        "question": recorded.question,
        "sub_task": recorded.subtask,
        "choices": list(recorded.choices),
        "answer": row.key or HIDDEN,
    }
    judged = {
        "id": recorded.idx,
        "gt_content": gold,
        "pred_parsed": letter,
        "pred": recorded.reply,
        "sub_task": recorded.subtask,
        "is_correct": bool(gold) and letter == gold,
    }
    return {
        "doc_id": number,
        "doc": doc,
        "target": row.key or HIDDEN,
        "resps": [[recorded.reply]],
        "filtered_resps": [recorded.reply],
        "blink_acc": judged,
    }
