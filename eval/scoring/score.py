"""Reads and scores the records of a run: who was right, wrong, unreadable or failed, without any model call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from looktwice.eval.readers.reader import reader_name
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.from_state import describe_failure
from looktwice.eval.records.judgements import Judgement, judgements, words_of
from looktwice.eval.records.records import Key, PointRow, Record, RunFolder, SampleRow
from looktwice.eval.scoring.benchmark import Scorer, build_scorer
from looktwice.eval.scoring.cost import Prices, cost_of, prices_of
from looktwice.eval.scoring.labels import labels
from looktwice.eval.scoring.verdict import (
    PointScores,
    ReadResult,
    RunScores,
    Score,
    ScoredRecord,
    Verdict,
    explain_missing_reply,
    read_stage_answer,
    reason_of,
)
from looktwice.pipelines.config.build import build
from looktwice.pipelines.marks import mark_from_dict
from looktwice.pipelines.model import Reply
from looktwice.pipelines.pipeline import NoModel, RecordingModel, StageFailed, step
from looktwice.pipelines.state import Stage, State


def score_run(folder: RunFolder, reader: Stage | None = None, judge: str = "") -> RunScores:
    """Read and score every record of a run. `reader` stands in for the reader that the run's configuration names.

    Where the run was judged, the verdicts of one judge count for what it was asked: `judge` names it, "" is the first
    that was asked, "none" nobody. No judge is asked here. Raises RunError for a folder that is none. A reader that
    raises makes that one record FAILED.
    """
    by_point: dict[str, dict[Key, Record]] = {name: {} for name in folder.points}
    for key, record in folder.records().items():
        by_point.setdefault(record.point, {})[key] = record
    tasks: dict[str, dict[str, SampleRow]] = {}
    for (task, name), row in folder.samples.items():
        tasks.setdefault(task, {})[name] = row
    judged = judgements(folder.path, judge)
    verdicts = judged.by_record()
    named = labels(list(folder.points.values()))
    points = [
        _score_point(folder, point, by_point.get(point.recorded_as, {}), tasks.get(point.task_id, {}), reader, verdicts)
        for point in folder.points.values()
    ]
    named_points = (replace(p, contestant=named[p.point.id][0], task=named[p.point.id][1]) for p in points)
    return RunScores(folder, tuple(named_points), judged)


def _score_point(
    folder: RunFolder,
    point: PointRow,
    records: Mapping[Key, Record],
    samples: Mapping[str, SampleRow],
    override: Stage | None,
    verdicts: Verdicts,
) -> PointScores:
    reader = override or configured_reader(point)
    score_record = RecordScorer(folder, reader, build_scorer(point.facts), verdicts, prices_of(point))
    scored: dict[str, dict[int, ScoredRecord]] = {name: {} for name in samples}
    for record in records.values():
        if record.sample in samples:
            scored[record.sample][record.draw] = score_record(record, samples[record.sample])
    return PointScores(point, samples, scored, " + ".join(_readers(scored, reader)))


def _readers(scored: Mapping[str, Mapping[int, ScoredRecord]], reader: Stage) -> Iterator[str]:
    """Who read the replies: the reader where it was needed, and the judges whose verdicts count."""
    entries = [entry for draws in scored.values() for entry in draws.values()]
    if any((entry.read or entry.reason == "unread") and not entry.judge for entry in entries):
        yield reader_name(type(reader).__name__)
    yield from dict.fromkeys(f"judge {entry.judge}" for entry in entries if entry.judge)


def configured_reader(point: PointRow) -> Stage:
    """The reader that the run's configuration names, or `Robust` where it names none. Raises what `build` raises."""
    if not point.read:
        return Robust()
    built: Stage = build(point.read)
    return built


Verdicts = Mapping[tuple[str, str, int, str], Mapping[str, Judgement]]
"""What a judge said, by (point, sample, draw, words) and pass."""


@dataclass(frozen=True)
class RecordScorer:
    """Reads records with one reader, which may call no model, and compares what it finds with the keys.

    `scorer` is the benchmark's own way to compare, where it has one. `verdicts` are those of the judge whose word
    counts: descriptions that only a judge can grade are what it says, and replies that the reader cannot read are
    what it read in them.
    """

    folder: RunFolder
    reader: Stage
    scorer: Scorer | None = None
    verdicts: Verdicts = field(default_factory=dict)
    prices: Prices = field(default_factory=dict)
    model: NoModel = field(default=NoModel("a reader may not call a model: scoring only reads what was recorded"))

    def __call__(self, record: Record, row: SampleRow) -> ScoredRecord:
        """One record, scored. What the reader raises makes this record FAILED, and no other."""
        replies, judged = record.replies, self._judged(record)
        found, graded, read = self._find(record, row, replies), judged.get("vid"), judged.get("unreadable")
        if graded and found.verdict is not Verdict.FAILED:
            found = _judge_result(graded)
        scored = self._scored(record, row, found)
        if read and scored.verdict is Verdict.UNREADABLE:
            nothing = replace(scored, judge=read.judge, detail=scored.detail or f"{read.judge} finds no answer either")
            scored = nothing if read.none else self._scored(record, row, _judge_result(read))
        marks = judged["cot"].scores if "cot" in judged else {}
        tokens = sum(r.usage.tokens_in for r in replies), sum(r.usage.tokens_out for r in replies)
        cost = cost_of(record, self.prices)
        return replace(scored, judged=marks, tokens_in=tokens[0], tokens_out=tokens[1], cost=cost)

    def _judged(self, record: Record) -> Mapping[str, Judgement]:
        """What the judge said of these very words, by pass."""
        if not self.verdicts or record.error:
            return {}
        return self.verdicts.get((record.point, record.sample, record.draw, words_of(record)), {})

    def _scored(self, record: Record, row: SampleRow, found: ReadResult) -> ScoredRecord:
        if record.letters and found.answer is not None:
            found = replace(found, answer=record.letters.get(found.answer.strip(), found.answer))
        score = _compare_with_key(found, row, self.scorer)
        if score.verdict is Verdict.UNREADABLE and not found.reason:
            found = replace(found, reason="unread", detail=f"{found.answer!r} is no answer to this task")
        said = found.answer, score, found.reason, found.detail, found.read
        return ScoredRecord(record.sample, record.draw, *said, judge=found.judge)

    def _find(self, record: Record, row: SampleRow, replies: list[Reply]) -> ReadResult:
        if record.error:
            return ReadResult(Verdict.FAILED, detail=record.error)
        if record.sample_sha and record.sample_sha != row.sha:
            return ReadResult(Verdict.FAILED, detail="the sample changed since this record was made; run it again")
        letters = _letters(row)
        if letters and row.answer is not None and row.answer not in letters:
            return ReadResult(Verdict.FAILED, detail=f"the key {row.answer!r} is none of {', '.join(letters)}")
        if record.answer is not None:
            return read_stage_answer(record.answer, letters)
        return explain_missing_reply(record, replies) or self._read(record, row, replies)

    def _read(self, record: Record, row: SampleRow, replies: list[Reply]) -> ReadResult:
        try:
            sample = row.without_pixels(self.folder.blobs, record.choices)
            if record.marks is not None:
                sample = replace(sample, marks=tuple(mark_from_dict(mark) for mark in record.marks))
            state = State(sample, prompt=sample.question, messages=self.folder.messages(record), draw=record.draw)
            after = step("read", self.reader, state, RecordingModel(self.model, record.sample))
        except StageFailed as exc:
            return ReadResult(Verdict.FAILED, detail=describe_failure(exc.__cause__ or exc))
        except (OSError, ValueError, KeyError, TypeError) as exc:
            return ReadResult(Verdict.FAILED, detail=f"the conversation cannot be rebuilt: {type(exc).__name__}: {exc}")
        if after.answer is not None:
            return ReadResult(answer=after.answer, read=True)
        cut = replies[-1].finish == "length"
        return ReadResult(Verdict.UNREADABLE, reason="cut_off" if cut else reason_of(after.reason), detail=after.reason)


def _judge_result(judgement: Judgement) -> ReadResult:
    return ReadResult(answer=judgement.answer, read=True, judge=judgement.judge)


def _compare_with_key(found: ReadResult, row: SampleRow, scorer: Scorer | None) -> Score:
    group = str(row.meta.get("group", ""))
    if found.verdict is not None or found.answer is None:
        return Score(found.verdict or Verdict.UNREADABLE, 0.0, group)
    if row.answer is None:
        return Score(Verdict.HIDDEN, 0.0, group)
    own = scorer.compare(found.answer, row) if scorer is not None else None
    if own is not None:
        return replace(own, group=own.group or group)
    right = _same(found.answer, row.answer, bool(row.sample["choices"]))
    return Score(Verdict.RIGHT if right else Verdict.WRONG, float(right), group)


def _same(answer: str, key: str, letter: bool) -> bool:
    """Letters must be equal; texts may differ in case and white space."""
    if letter:
        return answer.strip() == key
    return " ".join(answer.casefold().split()) == " ".join(key.casefold().split())


def _letters(row: SampleRow) -> tuple[str, ...]:
    choices: list[Any] = row.sample["choices"]
    return tuple(chr(ord("A") + number) for number in range(len(choices)))
