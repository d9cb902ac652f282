"""Logs of our own: run folders and recorded replies; and how the replies of any log are read by a
reader of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from looktwice.eval.logs.inspect_logs import join_pictures
from looktwice.eval.logs.log import NOTHING, Log, letter_or_text, rows_of
from looktwice.eval.records.records import Record, RunFolder, SampleRow
from looktwice.eval.replies.files import load_replies, model_name
from looktwice.eval.replies.scored import score_replies
from looktwice.eval.scoring.chance import published_people
from looktwice.eval.scoring.score import RecordScorer, score_run
from looktwice.eval.scoring.verdict import PointScores, ScoredRecord, Verdict
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.model import Messages
from looktwice.pipelines.state import Stage

UNSCORED = (Verdict.FAILED, Verdict.HIDDEN)


def read_run(path: Path, reader: Stage | None = None, plugins: Sequence[str] = ()) -> list[Log]:
    """A log for each contestant of a run, with all its tasks. Raises RunError, and TaskError for an
    empty run."""
    folder = RunFolder(path)
    run = score_run(folder, reader, plugins=plugins)
    texts = {
        record.key: str((record.last_reply or {}).get("text") or "")
        for record in folder.last_records()
    }
    people, kept = published_people(run), _KeptRecords(folder)
    levels = {s.task: people[s.point.task] / 100 for s in run.points if s.point.task in people}
    found: list[Log] = []
    for contestant in dict.fromkeys(scores.contestant for scores in run.points):
        points = [scores for scores in run.points if scores.contestant == contestant]
        if rows := [row for scores in points for row in _run_rows(scores, texts)]:
            ids = {scores.task: scores.point.recorded_as for scores in points}
            said = partial(_transcript, kept, ids)
            found.append(Log(contestant, rows_of(rows), run.name, transcript=said, people=levels))
    if not found:
        raise TaskError(f"{path} holds no record yet; `looktwice run` its configuration first")
    return found


@dataclass(frozen=True)
class _KeptRecords:
    """The records of a run, all in memory once one is asked for."""

    folder: RunFolder

    @cached_property
    def held(self) -> Mapping[tuple[str, str, int], Record]:
        return self.folder.records()


def _transcript(
    kept: _KeptRecords, ids: Mapping[str, str], task: str, sample: str, draw: int
) -> Messages:
    """The conversation of the last call of a record; none where no model was called."""
    record = kept.held.get((ids[task], sample, draw))
    return () if record is None else kept.folder.messages(record)


def _run_rows(
    scores: PointScores, texts: dict[tuple[str, str, int], str]
) -> Iterator[dict[str, Any]]:
    for name, draws in scores.draws_asked.items():
        for scored in draws:
            reply = texts.get((scores.point.recorded_as, name, scored.draw), "")
            yield _scored_row(scores.task, scores.samples[name], scored, reply)


def _scored_row(task: str, sample: SampleRow, scored: ScoredRecord, reply: str) -> dict[str, Any]:
    tokens, verdict = scored.tokens_in + scored.tokens_out, scored.verdict
    return {
        "task": task,
        "sample": sample.id,
        "draw": scored.draw,
        "question": str(sample.sample["question"]),
        "pictures": join_pictures(str(sha) for sha in sample.sample["images"]),
        "choices": tuple(
            choice if isinstance(choice, str) else "" for choice in sample.sample["choices"]
        ),
        "key": sample.answer or "",
        "answer": scored.answer or "",
        "value": NOTHING if verdict in UNSCORED else scored.score.value,
        "verdict": str(verdict),
        "group": scored.score.group,
        "reply": reply,
        "tokens": float(tokens) if tokens else NOTHING,
        "cost": scored.cost if scored.cost is not None else NOTHING,
    }


def read_replies(path: Path, reader: Stage | None = None) -> Log:
    """The log of a file of recorded replies, by their official labels or by a reader. Raises
    TaskError."""
    scores = score_replies(model_name(path), load_replies(path), None, reader).scores
    texts = {(scores.point.recorded_as, row.idx, 0): row.reply for row in load_replies(path)}
    rows = [{**row, "task": scores.samples[row["sample"]].task} for row in _run_rows(scores, texts)]
    return Log(model_name(path), rows_of(rows), path.name)


def read_with(log: Log, reader: Stage) -> Log:
    """The log with its replies read and scored by the reader, by the keys and choices that it
    holds."""
    whole = log.whole
    scorer = RecordScorer(RunFolder(Path()), reader)
    rows = whole.rows.to_dict("records")
    if not any(row["reply"] for row in rows):
        raise TaskError(f"{log.source}: {log.name} holds no reply that --reader could read")
    scored = [
        _score_row(scorer, row) if row["key"] and row["verdict"] != "failed" else row
        for row in rows
    ]
    return replace(whole, rows=rows_of(scored))


def _score_row(scorer: RecordScorer, row: dict[str, Any]) -> dict[str, Any]:
    sample = {
        "id": row["sample"],
        "question": row["question"],
        "images": [],
        "marks": [],
        "meta": {"subtask": row["task"]},
    }
    key = letter_or_text(row["key"]) if row["choices"] else row["key"]
    asked = SampleRow(row["task"], "", key, sample | {"choices": list(row["choices"])})
    call = {"messages": (), "reply": {"text": row["reply"]}}
    scored = scorer(Record("", row["sample"], "", calls=(call,)), asked)
    value = NOTHING if scored.verdict in UNSCORED else scored.score.value
    return {**row, "answer": scored.answer or "", "value": value, "verdict": str(scored.verdict)}
