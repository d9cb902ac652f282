"""The replies of a run folder as recorded replies, so that what a run predicted can be exported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from string import ascii_uppercase

from looktwice.eval.recorded import Recorded
from looktwice.eval.records import Record, RunFolder, SampleRow
from looktwice.eval.score import PointScores, score_run
from looktwice.eval.task import TaskError
from looktwice.pipelines.state import Stage

__all__ = ["Answered", "run_replies"]

Answered = tuple[Recorded, str | None, str]
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
