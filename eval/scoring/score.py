"""Reads and scores the records of a run: who was right, wrong, unreadable or failed, without any
model call."""

from __future__ import annotations

import gc
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from looktwice.eval.readers.reader import Reader, Reading, reader_name
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.judgements import (
    DESCRIPTION_PASS,
    REASONING_PASS,
    UNREADABLE_PASS,
    Judgement,
    judgements,
    words_of,
)
from looktwice.eval.records.records import PointRow, Record, RunError, RunFolder, SampleRow
from looktwice.eval.records.unchanged import kept_notes, request_of
from looktwice.eval.records.writer import describe_failure
from looktwice.eval.scoring.benchmark import Scorer, build_scorer
from looktwice.eval.scoring.cost import Prices, cost_of, prices_of
from looktwice.eval.scoring.labels import labels
from looktwice.eval.scoring.verdict import (
    UNJUDGED,
    PointScores,
    ReadResult,
    RunScores,
    Score,
    ScoredRecord,
    Verdict,
    cluster_of,
    explain_missing_reply,
    read_stage_answer,
    reason_of,
)
from looktwice.pipelines.config.build import build
from looktwice.pipelines.config.classes import ConfigError, is_foreign
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.json_input import mend_text
from looktwice.pipelines.marks import mark_from_dict
from looktwice.pipelines.model import Model
from looktwice.pipelines.models.keys import known_keys
from looktwice.pipelines.pipeline import NoModel, RecordingModel, StageFailed, step, with_models
from looktwice.pipelines.sample import say_key_fault
from looktwice.pipelines.state import Stage, State


@contextmanager
def without_collection() -> Iterator[None]:
    """Inside, nobody looks for cycles: of millions of new objects that takes a tenth of the time,
    and finds none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@without_collection()
def score_run(
    folder: RunFolder,
    reader: Stage | None = None,
    judge: str = "",
    *,
    plan: Plan | None = None,
    plugins: Sequence[str] = (),
    all_arms: bool = False,
) -> RunScores:
    """Read and score the records of a run's present plan, or with `all_arms` of every plan that it
    ever had.

    `reader` replaces the readers of the run. They and the benchmarks' scorers are the objects of
    `plan` where the run was just made from it; else they are built as points.yaml names them, from
    looktwice and the loaded `plugins`. If the run was judged, the judgements of one judge are used:
    `judge` names it, "" takes the one that read most, "none" uses no judge. No judge is called
    here. Raises RunError if `folder` is not a run folder, and where a class of a plugin is missing.
    A reader that raises makes only that record FAILED.
    """
    judged = judgements(folder.path, judge)
    present, older = folder.present_and_older
    shown = [*present, *older] if all_arms else present
    whole, hidden_draws = (
        all_arms or not folder.facts.get("arms"),
        0,
    )  # without a plan, all that there is
    names, planned = labels([*present, *older]), folder.facts.get("planned") or {}
    tools = ScoringTools(folder, plan, tuple(plugins), reader, judged.by_record())
    points: list[PointScores] = []
    wanted = defaultdict[str, list[tuple[RecordScorer, PointScores, _Scored]]](list)
    clusters = _clusters_by_task(folder, shown)
    for number, point in enumerate(shown):
        score, samples = tools.record_scorer(point), folder.samples_of.get(point.task_id, {})
        scored: _Scored = {name: {} for name in samples}
        old = number >= len(present)
        asked = 0 if old else planned.get(point.task_id)
        scores = PointScores(
            point,
            samples,
            scored,
            "",
            *names[point.id],
            asked,
            score.scorer,
            score,
            old,
            clusters[point.task],
        )
        points.append(scores)
        wanted[point.recorded_as].append((score, scores, scored))
    for record in folder.last_records():  # one at a time: a large run is never in memory as a whole
        for score, scores, scored in wanted.get(record.point, ()):
            if not whole and record.draw >= scores.point.draws:
                hidden_draws += not scores.point.replies_of
            elif record.sample in scores.samples:
                scored[record.sample][record.draw] = score(record, scores.samples[record.sample])
    hidden = [] if all_arms else [" on ".join(names[point.id]) for point in older]
    return RunScores(folder, tuple(map(_with_readers, points)), judged, tuple(hidden), hidden_draws)


_Scored = dict[str, dict[int, ScoredRecord]]


def _clusters_by_task(
    folder: RunFolder, points: Sequence[PointRow]
) -> Mapping[str, Mapping[str, str]]:
    """By a task's name the cluster of each sample: that of its first variant, as others may change
    the pictures."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for task, task_id in dict.fromkeys((point.task, point.task_id) for point in points):
        named = {
            name: cluster_of(task, row) for name, row in folder.samples_of.get(task_id, {}).items()
        }
        found[task] = named | found[task]
    return found


def _with_readers(scores: PointScores) -> PointScores:
    """Named is what extracted the answers: the reader if it was needed, and each judge whose
    judgements were used."""
    readers = (
        [reader_name(type(scores.score.reader).__name__)]
        if isinstance(scores.score, RecordScorer)
        else []
    )
    if not any(
        (entry.read or entry.reason == "unread") and not entry.judge for entry in scores.all
    ):
        readers = []
    judges = dict.fromkeys(f"judge {entry.judge}" for entry in scores.all if entry.judge)
    return replace(scores, reader=" + ".join((*readers, *judges)))


_NO_SCORES: Mapping[str, Any] = {}
JudgementsByRecord = Mapping[tuple[str, str, int, str], Mapping[str, Judgement]]
"""The judgements of one judge, by (point, sample, draw, digest of the judged words) and then by
pass."""


@dataclass(frozen=True)
class RecordScorer:
    """Extracts answers from records with one reader, which may not call a model, and compares them
    with the keys.

    `scorer` is the benchmark's own comparison, if it has one. `judgements` are those of one judge:
    its grade of a description replaces the reader's answer, and its answer is used for a reply that
    the reader could not read.
    """

    folder: RunFolder
    reader: Stage
    scorer: Scorer | None = None
    judgements: JudgementsByRecord = field(default_factory=dict)
    prices: Prices = field(default_factory=dict)
    model: NoModel = field(
        default=NoModel("a reader may not call a model: scoring only reads what was recorded")
    )

    def __call__(self, record: Record, row: SampleRow) -> ScoredRecord:
        """Score one record. An error in the reader makes only this record FAILED."""
        judged = self._judgements_of(record)
        result = self._extract_answer(record, row)
        description_judgement, reply_judgement = (
            judged.get(DESCRIPTION_PASS),
            judged.get(UNREADABLE_PASS),
        )
        if description_judgement and result.verdict is not Verdict.FAILED:
            result = _judge_result(description_judgement)
        elif (
            self.scorer is not None
            and self.scorer.needs_judge
            and (result.verdict is None or result.reason == "unread")
        ):
            result = ReadResult(
                Verdict.UNREADABLE, reason=UNJUDGED, detail="no judge has graded it"
            )
        result, score = self._compare(record, row, result)
        if reply_judgement and score.verdict is Verdict.UNREADABLE:
            if reply_judgement.none:
                judge = reply_judgement.judge
                result = replace(
                    result, judge=judge, detail=result.detail or f"{judge} finds no answer either"
                )
            else:
                result, score = self._compare(record, row, _judge_result(reply_judgement))
        tokens_in = tokens_out = 0
        for call in record.calls:
            usage = (call.get("reply") or {}).get("usage") or {}
            tokens_in += usage.get("tokens_in", 0)
            tokens_out += usage.get("tokens_out", 0)
        return ScoredRecord(
            row.id,  # the one that all arms share
            record.draw,
            result.answer,
            score,
            result.reason,
            result.detail,
            result.read,
            tokens_in,
            tokens_out,
            cost_of(record, self.prices),
            len(record.calls),
            result.judge,
            judged[REASONING_PASS].scores if REASONING_PASS in judged else _NO_SCORES,
            _measured(record),
            request_of(record),
            kept_notes(record),
        )

    def _judgements_of(self, record: Record) -> Mapping[str, Judgement]:
        """The judgements of exactly this reply, by pass."""
        if not self.judgements or record.error:
            return {}
        return self.judgements.get((record.point, record.sample, record.draw, words_of(record)), {})

    def _compare(
        self, record: Record, row: SampleRow, result: ReadResult
    ) -> tuple[ReadResult, Score]:
        if record.letters and result.answer is not None:
            result = replace(
                result, answer=record.letters.get(result.answer.strip(), result.answer)
            )
        score = compare_with_key(result, row, self.scorer)
        if score.verdict is Verdict.UNREADABLE and not result.reason:
            result = replace(
                result, reason="unread", detail=f"{result.answer!r} is no answer to this task"
            )
        return result, score

    def _extract_answer(self, record: Record, row: SampleRow) -> ReadResult:
        if record.error:
            return ReadResult(Verdict.FAILED, detail=record.error)
        if record.sample_sha and record.sample_sha != row.sha:
            return ReadResult(
                Verdict.FAILED, detail="the sample changed since this record was made; run it again"
            )
        letters = _letters(row.n_choices)
        if row.answer not in letters and (wrong := say_key_fault(row.answer, len(letters))):
            return ReadResult(Verdict.FAILED, detail=wrong)
        if record.answer is not None:
            return read_stage_answer(record.answer, letters)
        return explain_missing_reply(record) or self._read(record, row)

    def _read(self, record: Record, row: SampleRow) -> ReadResult:
        try:
            sample = row.without_pixels(self.folder.blobs, record.choices)
            if record.marks is not None:
                sample = replace(sample, marks=tuple(mark_from_dict(mark) for mark in record.marks))
            state = State(
                sample,
                prompt=sample.question,
                messages=self.folder.messages(record),
                draw=record.draw,
            )
            after = self._reading(state) or step(
                "read", self.reader, state, RecordingModel(self.model, record.sample)
            )
        except StageFailed as exc:
            return ReadResult(Verdict.FAILED, detail=describe_failure(exc.__cause__ or exc))
        except (OSError, ValueError, KeyError, TypeError) as exc:
            return ReadResult(
                Verdict.FAILED,
                detail=f"the conversation cannot be rebuilt: {type(exc).__name__}: {exc}",
            )
        if after.answer is not None:
            return ReadResult(answer=after.answer, read=True)
        cut = record.last_reply is not None and record.last_reply.get("finish") == "length"
        return ReadResult(
            Verdict.UNREADABLE,
            reason="cut_off" if cut else reason_of(after.reason),
            detail=after.reason,
        )

    def _reading(self, state: State) -> Reading | None:
        """What a `Reader` reads, without the records that a stage needs; None where `step` has to
        say what is wrong."""
        if self._plain_reader is None:
            return None
        try:
            reading = self._plain_reader.masked(state, self._keys)
            fine = (reading.answer is None or _is_whole(reading.answer)) and _is_whole(
                reading.reason
            )
        except Exception:
            return None
        return reading if fine else None

    @cached_property
    def _keys(self) -> Sequence[str]:
        return known_keys()

    @cached_property
    def _plain_reader(self) -> Reader | None:
        """The reader where it is a `Reader` that is called as such, and holds no model of its
        own."""
        models: dict[int, Model] = {}
        with_models(self.reader, lambda model: models.setdefault(id(model), model))
        called_as_such = (
            isinstance(self.reader, Reader) and type(self.reader).__call__ is Reader.__call__
        )
        return self.reader if called_as_such and not models else None  # type: ignore[return-value]


@dataclass(frozen=True)
class ScoringTools:
    """Makes the scorers of a run's records: from the arms of its plan, else from what points.yaml
    names."""

    folder: RunFolder
    plan: Plan | None = None
    plugins: tuple[str, ...] = ()
    reader: Stage | None = None
    judgements: JudgementsByRecord = field(default_factory=dict)

    def record_scorer(self, point: PointRow) -> RecordScorer:
        """The scorer of the records of one point. Raises RunError where a class cannot be built."""
        if point.id in self.of_plan:
            return self.of_plan[point.id]
        try:
            scope = Scope.of_records(self.folder.path, self.plugins)
            reader = self.reader or (build(point.read, scope) if point.read else Robust())
            scorer, prices = build_scorer(point.facts, scope), prices_of(point, scope)
        except ConfigError as exc:
            raise RunError(self._explain(point, exc)) from exc
        return RecordScorer(self.folder, reader, scorer, self.judgements, prices)

    @cached_property
    def of_plan(self) -> Mapping[str, RecordScorer]:
        """The scorers of the plan's arms by id, with the objects of the plan itself. Raises
        ConfigError."""
        if self.plan is None:
            return {}
        scope = Scope(
            Path("/"), plugins=tuple(self.plan.plugins)
        )  # the plan's own paths were checked
        found = {}
        for arm in (*self.plan.points, *self.plan.readings):
            try:
                scorer = build_scorer({"scorer": arm.task.facts.scorer}, scope)
            except ConfigError as exc:
                raise ConfigError(
                    [f"tasks.{arm.task_name}: the scorer of its facts: {exc}"]
                ) from exc
            prices = prices_of(arm, scope)
            found[arm.id] = RecordScorer(
                self.folder, self.reader or arm.read, scorer, self.judgements, prices
            )
        return found

    def _explain(self, point: PointRow, exc: ConfigError) -> str:
        """Which class cannot be built and, where it is of a plugin that was not named, what to
        type."""
        nodes = {
            "reader": {} if self.reader else point.read,
            "scorer": point.facts.get("scorer") or {},
        }
        foreign = {
            what: str(node["use"])
            for what, node in nodes.items()
            if is_foreign(node.get("use", ""))
        }
        lacking = {
            what: use for what, use in foreign.items() if use.partition(".")[0] not in self.plugins
        }
        if not lacking:
            return f"{self.folder.path}: {point.contestant} on {point.task} cannot be scored: {exc}"
        what, use = next(iter(lacking.items()))
        module, _, rest = use.partition(".")
        in_python = (
            f"give score_table(..., reader={use.rpartition('.')[2]}()), "
            if what == "reader"
            else ""
        )
        if module == "__main__":
            return (
                f"{self.folder.path}: its {what} {use} is a class of the script or notebook that"
                " made the run. Call evaluate() there again, which asks nothing twice,"
                f" {in_python}or keep the class in a file of its own"
            )
        recorded = {
            str(each["name"]): str(each["path"]) for each in self.folder.facts.get("plugins") or ()
        }
        files = {module: module if "." in rest else f"{module}.py"} | recorded
        options = " ".join(f"--plugin {shlex.quote(path)}" for path in files.values())
        return (
            f"{self.folder.path}: its {what} {use} is a class of the plugin {files[module]}, and"
            " code is loaded only where you name it: add it to the command, as in `looktwice score"
            f" {shlex.quote(str(self.folder.path))} {options}`; in Python"
            f" {in_python and in_python + 'or '}import {module} and give `plugins=[{module!r}]`"
        )


def _measured(record: Record) -> Mapping[str, Any]:
    if record.confidence is None:
        return record.measured or _NO_SCORES
    return {"confidence": record.confidence, **(record.measured or {})}


def _judge_result(judgement: Judgement) -> ReadResult:
    return ReadResult(answer=judgement.answer, read=True, judge=judgement.judge)


def compare_with_key(result: ReadResult, row: SampleRow, scorer: Scorer | None) -> Score:
    """The score of an answer that was read, by the benchmark's own comparison where it has one."""
    group = str(row.meta.get("group", ""))
    if result.verdict is not None or result.answer is None:
        return _score(result.verdict or Verdict.UNREADABLE, 0.0, group)
    if row.answer is None:
        return _score(Verdict.HIDDEN, 0.0, group)
    own = scorer.compare(result.answer, row) if scorer is not None else None
    if own is not None:
        return replace(own, group=own.group or group)
    right = _is_same_answer(result.answer, row.answer, bool(row.n_choices))
    return _score(Verdict.RIGHT if right else Verdict.WRONG, float(right), group)


_score = lru_cache(maxsize=4096)(Score)  # a large run has a few scores, and many records


def _is_same_answer(answer: str, key: str, letter: bool) -> bool:
    """Letters must be equal; texts may differ in case and white space."""
    if letter:
        return answer.strip() == key
    return " ".join(answer.casefold().split()) == " ".join(key.casefold().split())


def _is_whole(text: str) -> bool:
    return str.isascii(text) or mend_text(text) == text


@lru_cache
def _letters(choices: int) -> tuple[str, ...]:
    return tuple(chr(ord("A") + number) for number in range(choices))
