"""Scores recorded replies as the records of a run are scored; each reply of a file becomes a record
for that."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.records.records import PointRow, Record, RunFolder, SampleRow
from looktwice.eval.replies.files import HIDDEN, RecordedReply, letter_of, subtask_of_idx
from looktwice.eval.replies.task import OfficialLabel
from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.row import METRICS, Row, fill
from looktwice.eval.scoring.score import RecordScorer, score_run
from looktwice.eval.scoring.verdict import PointScores, Score, ScoredRecord, Verdict
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.state import Stage


@dataclass(frozen=True)
class ScoredReply:
    """A reply with the answer that was found in it and the key, each as "(X)"; `reason` says why
    there is no answer."""

    recorded: RecordedReply
    answer: str | None
    key: str = ""
    reason: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether the answer is the recorded label, where "(C) Point C" is C and "(Z)" is none;
        None without one."""
        return (
            None if self.recorded.label is None else letter_of(self.recorded.label) == self.answer
        )


@dataclass(frozen=True)
class ScoredReplies:
    """The replies of one file, or of one contestant of a run, with their scores.

    An item of the key that a file has no reply to counts as not right: the file claims to answer
    the key. `by_reader` says that a reader found the answers; else they are the recorded labels.
    """

    name: str
    replies: tuple[ScoredReply, ...]
    scores: PointScores
    by_reader: bool

    @property
    def missing(self) -> int:
        """How many items of the key have no reply in the file, or were not asked in the run."""
        unasked = sum(not self.scores.asked(name) for name in self.scores.samples)
        return unasked + len(self.scores.samples) - len(self.replies)

    @property
    def subtasks(self) -> set[str]:
        """The subtasks of BLINK whose items are here."""
        return {subtask_of_idx(idx) for idx in self.scores.samples}

    @cached_property
    def accuracy(self) -> list[Row]:
        """A row for each subtask."""
        return self._rows("accuracy", self.scores)

    @cached_property
    def coverage(self) -> list[Row]:
        """A row for each subtask, over all items, or over the replies where a reader read them."""
        replied = {reply.recorded.idx for reply in self.replies}
        return self._rows("coverage", self.scores.only(replied) if self.by_reader else self.scores)

    def _rows(self, metric: str, scores: PointScores) -> list[Row]:
        items = sorted(scores.samples, key=subtask_of_idx)
        return [
            fill(
                Row(self.name, "", self.name, subtask, "", metric, None, task_name=subtask),
                Metric(metric, METRICS[metric](scores.only(set(part)))),
            )
            for subtask, part in groupby(items, key=subtask_of_idx)
        ]


def score_replies(
    name: str,
    rows: Sequence[RecordedReply],
    keys: Mapping[str, str] | None,
    reader: Stage | None = None,
) -> ScoredReplies:
    """The replies of one file: their recorded labels, or what a reader finds in them, compared with
    the keys.

    `keys` maps idx to "(X)"; None takes the keys of the rows themselves. Without a reader, replies
    without a key are left out. Raises TaskError where not one of the rows has a key, or one cannot
    be read.
    """
    if keys is None:
        keys = {row.idx: row.answer for row in rows if row.answer and row.answer != HIDDEN}
    with_key = [row for row in rows if row.idx in keys or not keys]
    if not with_key:
        example = f"{rows[0].idx!r} here, {next(iter(keys))!r} there"
        raise TaskError(f"{name}: none of its {len(rows)} items is in the key ({example})")
    if reader is None and all(row.label is None for row in with_key):
        raise TaskError(f"{name} has no official_label; name a reader of ours with --reader")
    subtasks, present = {row.subtask for row in with_key}, {row.idx for row in with_key}
    absent = [
        RecordedReply(idx, "")
        for idx in keys
        if subtask_of_idx(idx) in subtasks and idx not in present
    ]
    kept = with_key if reader is None else rows
    samples = {row.idx: _sample_row(row, keys.get(row.idx, "")) for row in (*kept, *absent)}
    scorer = RecordScorer(RunFolder(Path()), reader or OfficialLabel())
    silent = ScoredRecord(
        "", 0, None, Score(Verdict.UNREADABLE), "empty", "the file has no reply to it"
    )
    scored = {row.idx: {0: replace(silent, sample=row.idx)} for row in absent}
    for row in kept:
        text = row.reply if reader is not None else row.label or ""
        record = Record(name, row.idx, "", calls=({"messages": (), "reply": {"text": text}},))
        scored[row.idx] = {0: scorer(record, samples[row.idx])}
    for idx, draws in scored.items():
        if draws[0].verdict is Verdict.FAILED:
            raise TaskError(
                f"{name}: {idx} cannot be scored: {draws[0].detail.strip().splitlines()[-1]}"
            )
    scores = PointScores(PointRow(name, name, name, name), samples, scored)
    return ScoredReplies(name, _replies(kept, scores), scores, reader is not None)


def score_run_replies(
    path: Path,
    keys: Mapping[str, str] | None = None,
    reader: Stage | None = None,
    plugins: Sequence[str] = (),
) -> list[ScoredReplies]:
    """The replies of each contestant of a run, which has a name fit for a file; of several draws
    the first.

    `keys` stand in for those of the run. Raises RunError, and TaskError where one contestant was
    asked a question in several variants.
    """
    folder = RunFolder(path) if keys is None else _RunWithKeys(path, keys)
    points, records = score_run(folder, reader, plugins=plugins).points, folder.records()
    found = []
    for contestant in dict.fromkeys(scores.contestant for scores in points):
        held = [scores for scores in points if scores.contestant == contestant]
        rows, samples, scored = [], {}, {}
        for scores in held:
            for idx, sample in scores.samples.items():
                first, record = scores.first(idx), records.get((scores.point.recorded_as, idx, 0))
                rows.append(_recorded_reply(sample, record))
                samples[idx], scored[idx] = sample, {0: first} if first is not None else {}
        if len(samples) < len(rows):
            raise TaskError(
                f"{path}: {contestant!r} was asked a question in several variants; run them one"
                " by one"
            )
        merged = replace(
            held[0], point=replace(held[0].point, draws=1), samples=samples, scored=scored
        )
        name = re.sub(r"[^\w.=-]+", "_", contestant).strip("_")
        found.append(ScoredReplies(name, _replies(rows, merged), merged, by_reader=True))
    return found


@dataclass(frozen=True)
class _RunWithKeys(RunFolder):
    """A run whose samples have the keys of a file; those that it does not name have none."""

    keys: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def samples(self) -> dict[tuple[str, str], SampleRow]:
        rows = RunFolder(self.path).samples
        return {
            place: replace(row, answer=_letter(self.keys.get(row.id, "")))
            for place, row in rows.items()
        }


def _replies(rows: Sequence[RecordedReply], scores: PointScores) -> tuple[ScoredReply, ...]:
    found = []
    for row in rows:
        scored, key = scores.first(row.idx), _in_brackets(scores.samples[row.idx].answer) or ""
        if scored is None:
            found.append(ScoredReply(row, None, key, "it was not asked"))
        else:
            found.append(
                ScoredReply(row, _in_brackets(scored.answer), key, scored.detail or scored.reason)
            )
    return tuple(found)


def _sample_row(row: RecordedReply, key: str) -> SampleRow:
    sample: dict[str, Any] = {
        "id": row.idx,
        "question": row.question,
        "images": [],
        "choices": list(row.choices),
        "marks": [],
        "meta": {"subtask": row.subtask},
    }
    return SampleRow(row.subtask, "", _letter(key), sample)


def _recorded_reply(row: SampleRow, record: Record | None) -> RecordedReply:
    replies = record.replies if record is not None else []
    text = replies[-1].text if replies else ""
    choices = tuple(choice if isinstance(choice, str) else "" for choice in row.sample["choices"])
    category = "" if subtask_of_idx(row.id) else str(row.meta.get("category") or "")
    return RecordedReply(
        row.id,
        text,
        None,
        _in_brackets(row.answer) or HIDDEN,
        choices,
        str(row.sample["question"]),
        category,
    )


def _letter(key: str) -> str | None:
    return key.strip("()") or None


def _in_brackets(answer: str | None) -> str | None:
    return f"({answer})" if answer in tuple(ascii_uppercase) else answer
