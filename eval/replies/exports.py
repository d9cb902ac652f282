"""Replies in the formats of others: EvalAI, VLMEvalKit's table, lmms-eval's samples; from files or run folders."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.records.records import Record, RunFolder, SampleRow
from looktwice.eval.replies.files import Recorded
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import PointScores
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.state import Stage

Answered = tuple[Recorded, str | None, str]
"""A reply with the answer that was read, "(X)" or None, and the key, "(X)" or empty."""
FORMATS: Mapping[str, str] = {
    ".json": "the EvalAI submission: an object from idx to '(X)'",
    ".tsv": "VLMEvalKit's table of predictions",
    ".xlsx": "the same for Excel",
    ".jsonl": "lmms-eval's samples",
}
LONGEST = 32_767  # characters that a cell of Excel holds


def export(rows: Sequence[Answered], file: Path) -> int:
    """Write the rows in the format of the file's ending (see FORMATS); gives how many. Raises TaskError."""
    if file.suffix not in FORMATS:
        known = "; ".join(f"{ending} {what}" for ending, what in FORMATS.items())
        raise TaskError(f"--export {file}: the format follows from the ending: {known}")
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".json":
        chosen = evalai(rows)
        file.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")
        return len(chosen)
    if file.suffix == ".jsonl":
        lines = (json.dumps(_sample(number, *row), ensure_ascii=False) for number, row in enumerate(rows))
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return len(rows)
    table = _table(rows)
    if file.suffix == ".tsv":
        with file.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, delimiter="\t").writerows(table)
    else:
        _xlsx(table, file)
    return len(rows)


def evalai(rows: Sequence[Answered]) -> dict[str, str]:
    """idx -> "(X)", "(Z)" where nothing was found; of the split test alone where there is one, as EvalAI wants it."""
    tested = [row for row in rows if row[0].idx.startswith("test_")]
    return {recorded.idx: answer or "(Z)" for recorded, answer, _ in tested or rows}


def _table(rows: Sequence[Answered]) -> list[list[str]]:
    most = max((len(recorded.choices) for recorded, _, _ in rows), default=0)
    letters = list(ascii_uppercase[:most])
    found = [["index", "split", "category", "question", *letters, "answer", "prediction", "read"]]
    for recorded, answer, key in rows:
        texts = [*recorded.choices, *[""] * (most - len(recorded.choices))]
        split = recorded.idx.partition("_")[0]
        read = (answer or "(Z)").strip("()")
        words = [recorded.question, *texts, key.strip("()"), recorded.reply, read]
        found.append([recorded.idx, split, recorded.subtask, *words])
    return found


def _xlsx(table: Sequence[Sequence[str]], file: Path) -> None:
    try:
        from openpyxl import Workbook
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE, WriteOnlyCell
    except ImportError as exc:
        raise TaskError(f"{file}: writing .xlsx needs openpyxl; type `pip install openpyxl`, or use .tsv") from exc
    long = [row[0] for row in table if any(len(cell) > LONGEST for cell in row)]
    if long:
        raise TaskError(f"{file}: {len(long)} rows, first {long[0]}, are longer than a cell of Excel holds; use .tsv")
    book = Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    for row in table:
        cells = [WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", text)) for text in row]
        for cell in cells:
            cell.data_type = "s"  # a reply that begins like a formula is still a text
        sheet.append(cells)
    book.save(file)


def _sample(number: int, recorded: Recorded, answer: str | None, key: str) -> dict[str, Any]:
    letter, gold = (answer or "").strip("()"), key.strip("()")
    doc = {
        "idx": recorded.idx,
        "question": recorded.question,
        "sub_task": recorded.subtask,
        "choices": list(recorded.choices),
        "answer": key or "hidden",
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
        "target": key or "hidden",
        "resps": [[recorded.reply]],
        "filtered_resps": [recorded.reply],
        "blink_acc": judged,
    }


"""A reply, the answer that was read in it as "(X)" or None, and why there is none."""


def run_replies(path: Path, reader: Stage | None = None) -> Iterator[tuple[str, list[Answered]]]:
    """Each contestant's name, fit for a file, and what it answered; of several draws the first.

    Answers are what scoring finds, letters of the task's own choices. Raises RunError, and TaskError where one
    contestant was asked a question in several variants.
    """
    folder = RunFolder(path)
    run, records = score_run(folder, reader), folder.records()
    for contestant in dict.fromkeys(scores.contestant for scores in run.points):
        points = [scores for scores in run.points if scores.contestant == contestant]
        found = [row for scores in points for row in _answered(scores, records)]
        if len({recorded.idx for recorded, _, _ in found}) < len(found):
            raise TaskError(f"{path}: {contestant!r} was asked a question in several variants; run them one by one")
        yield re.sub(r"[^\w.=-]+", "_", contestant).strip("_"), found


def _answered(scores: PointScores, records: dict[tuple[str, str, int], Record]) -> Iterator[Answered]:
    for name, row in scores.samples.items():
        scored, record = scores.draws(name)[0], records.get((scores.point.recorded_as, name, 0))
        replies = record.replies if record is not None else []
        answer = scored.answer if scored is not None else None
        reason = scored.reason or scored.detail if scored is not None else "it was not asked"
        yield _recorded(row, replies[-1].text if replies else ""), _bracketed(answer), reason


def _recorded(row: SampleRow, reply: str) -> Recorded:
    choices = tuple(choice if isinstance(choice, str) else "" for choice in row.sample["choices"])
    return Recorded(row.id, reply, None, _bracketed(row.answer) or "hidden", choices, str(row.sample["question"]))


def _bracketed(answer: str | None) -> str | None:
    return f"({answer})" if answer in tuple(ascii_uppercase) else answer
