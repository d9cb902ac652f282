"""Logs of our own: run folders and recorded replies; and how the replies of any log are read by a
reader of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from looktwice.eval.logs.log import NOTHING, UNSCORED, Log, join_pictures, letter_or_text, make_rows
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.records import Record, RunFolder, SampleRow
from looktwice.eval.replies import CHOICES, HIDDEN, OfficialLabel, subtask_of_idx
from looktwice.eval.scoring.chance import published_people
from looktwice.eval.scoring.score import RecordScorer
from looktwice.eval.scoring.score_run import score_run
from looktwice.eval.scoring.verdict import PointScores, ScoredRecord, Verdict
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.table_files import read_objects
from looktwice.pipelines.model import Messages
from looktwice.pipelines.state import Stage

IDX = re.compile(r"[^_]+_.+_\d+")


def read_run(path: Path, reader: Stage | None = None, plugins: Sequence[str] = ()) -> list[Log]:
    """A log for each contestant of a run, with all its tasks. Raises RunError, and TaskError for an
    empty run."""
    folder = RunFolder(path)
    run, texts = score_run(folder, reader, plugins=plugins), reply_texts(folder)
    people, records = published_people(run), cache(folder.records)
    levels = {s.task: people[s.point.task] / 100 for s in run.points if s.point.task in people}

    def transcript(ids: Mapping[str, str], task: str, sample: str, draw: int) -> Messages:
        record = records().get((ids[task], sample, draw))
        return () if record is None else folder.messages(record)

    logs = []
    for contestant in dict.fromkeys(scores.contestant for scores in run.points):
        points = [scores for scores in run.points if scores.contestant == contestant]
        rows = [
            run_row(scores, name, scored, texts)
            for scores in points
            for name, draws in scores.draws_asked.items()
            for scored in draws
        ]
        ids = {scores.task: scores.point.recorded_as for scores in points}
        if rows:
            conversation = partial(transcript, ids)
            logs.append(
                Log(contestant, make_rows(rows), run.name, transcript=conversation, people=levels)
            )
    if not logs:
        raise TaskError(f"{path} holds no record yet; `looktwice run` its configuration first")
    return logs


def reply_texts(folder: RunFolder) -> Mapping[tuple[str, str, int], str]:
    """The last reply of every record of a run, by its key."""
    return {
        record.key: str((record.last_reply or {}).get("text") or "")
        for record in folder.last_records()
    }


def run_row(
    scores: PointScores, name: str, scored: ScoredRecord, texts: Mapping[tuple[str, str, int], str]
) -> dict[str, Any]:
    """The row of one record of a run: what was read in the reply to the sample of this name."""
    tokens = scored.tokens_in + scored.tokens_out
    return {
        **asked_columns(scores.samples[name]),
        **scored_columns(scored),
        "task": scores.task,
        "draw": scored.draw,
        "group": scored.score.group,
        "reply": texts.get((scores.point.recorded_as, name, scored.draw), ""),
        "tokens": float(tokens) if tokens else NOTHING,
        "cost": NOTHING if scored.cost is None else scored.cost,
    }


def asked_columns(sample: SampleRow) -> dict[str, Any]:
    """What a row holds of the question."""
    choices = (choice if isinstance(choice, str) else "" for choice in sample.sample["choices"])
    return {
        "sample": sample.id,
        "question": str(sample.sample["question"]),
        "pictures": join_pictures(map(str, sample.sample["images"])),
        "choices": tuple(choices),
        "key": sample.answer or "",
    }


def scored_columns(scored: ScoredRecord) -> dict[str, Any]:
    """What a row holds of what was read in the reply."""
    unscored = scored.verdict in (Verdict.FAILED, Verdict.HIDDEN)
    return {
        "answer": scored.answer or "",
        "value": NOTHING if unscored else scored.score.value,
        "verdict": str(scored.verdict),
    }


def read_replies(path: Path, named: Mapping[str, str]) -> list[Log]:
    """The log of a file of recorded replies: JSON lines with `idx, reply, official_label, answer`,
    maybe `choices` and `question`. Raises TaskError."""
    rows = [_reply_row(line, f"{path} line {number}") for number, line in read_objects(path)]
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return [Log(name, make_rows(list(with_choices(path, rows))), path.name)]


def _reply_row(line: Mapping[str, Any], place: str) -> dict[str, Any]:
    if not isinstance(line.get("idx"), str) or "reply" not in line:
        raise TaskError(f"{place}: expected an object with idx and reply, found {sorted(line)}")
    if not isinstance(line.get("choices") or [], list):
        raise TaskError(f"{place}: choices is {line['choices']!r}; expected a list of texts")
    for name in ("official_label", "answer", "question"):
        if not isinstance(line.get(name) or "", str):
            raise TaskError(f"{place}: {name} is {line[name]!r}; expected a text")
    key = line.get("answer") or HIDDEN
    if key != HIDDEN and not re.fullmatch(r"\(?[A-Z]\)?", key):
        raise TaskError(
            f"{place}: answer is {key!r}; expected the key as '(A)', '(B)' ..., or 'hidden'"
        )
    return {
        "task": subtask_of_idx(line["idx"]),
        "sample": line["idx"],
        "question": line.get("question") or "",
        "choices": tuple(map(str, line.get("choices") or ())),
        "key": "" if key == HIDDEN else key.strip("()"),
        "verdict": UNSCORED,
        "reply": str(line["reply"] or ""),
        "label": line.get("official_label") or "",
    }


def with_choices(path: Path, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of recorded replies with BLINK's choices where they bring none of their own, and an
    idx where a toolkit has numbers.

    Raises TaskError for an unknown subtask, and for an idx that is none or comes twice.
    """
    seen = set[str]()
    for row in rows:
        idx = row["sample"]
        if not IDX.fullmatch(idx):
            task = row["task"].strip().replace(" ", "_") or "unknown"
            idx = f"{row.get('split') or 'val'}_{task}_{idx.removesuffix('.0')}"
        if not IDX.fullmatch(idx):
            raise TaskError(
                f"{path}: the idx {row['sample']!r} is not SPLIT_SUBTASK_NUMBER, such as"
                " val_Art_Style_1"
            )
        if idx in seen:
            raise TaskError(f"{path}: the idx {idx!r} comes twice; keep one reply per item")
        seen.add(idx)
        subtask, key = subtask_of_idx(idx), row["key"].strip("() ")
        if not row["choices"] and subtask not in CHOICES:
            raise TaskError(
                f"{path}: {idx!r}: {subtask!r} is no subtask of BLINK; there are"
                f" {', '.join(sorted(CHOICES))}"
            )
        yield {
            **row,
            "sample": idx,
            "task": subtask,
            "key": key if re.fullmatch("[A-Z]", key) else "",
            "choices": row["choices"] or CHOICES[subtask],
        }


def read_with(log: Log, reader: Stage | None = None) -> Log:
    """The log with its replies read and scored by the reader, by the keys and choices that it
    holds; without one recorded labels count, else `Robust` reads.

    Raises TaskError where the log holds no reply.
    """
    whole = log.whole
    rows = whole.rows.to_dict("records")
    if labelled := any(row["label"] for row in rows):
        rows = [row for row in rows if row["key"]] or rows
    column = "label" if labelled and reader is None else "reply"
    if not any(row[column] for row in rows):
        raise TaskError(f"{log.source}: {log.name} holds no reply that --reader could read")
    scorer = reply_scorer(OfficialLabel() if column == "label" else reader or Robust())
    return replace(
        whole,
        rows=make_rows(
            [
                row | scored_columns(score_reply(scorer, row, row[column])[1])
                if row["key"] and row["verdict"] != "failed"
                else row
                for row in rows
            ]
        ),
    )


def reply_scorer(reader: Stage) -> RecordScorer:
    """Scores replies that are in no run folder."""
    return RecordScorer(RunFolder(Path()), reader)


def score_reply(
    scorer: RecordScorer, row: Mapping[str, Any], text: str
) -> tuple[SampleRow, ScoredRecord]:
    """The question of a row of a log, and what is read in a reply to it."""
    sample = {
        "id": row["sample"],
        "question": row["question"],
        "images": [],
        "choices": list(row["choices"]),
        "marks": [],
        "meta": {"subtask": row["task"]},
    }
    key = letter_or_text(row["key"]) if row["choices"] else row["key"]
    asked = SampleRow(row["task"], "", key or None, sample)
    call = {"messages": (), "reply": {"text": text}}
    return asked, scorer(Record("", row["sample"], "", calls=(call,)), asked)
