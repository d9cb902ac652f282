"""Reads and scores the records of a run without any model call: right, wrong, unreadable or failed,
and the cost of the calls."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from looktwice.eval.readers.reader import get_reader_name
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.judgements import (
    DESCRIPTION_PASS,
    EVERY_PASS,
    UNREADABLE_PASS,
    JudgedWords,
    Judgement,
    hash_judged_words,
    judgements,
)
from looktwice.eval.records.records import PointRow, Record, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import describe_failure
from looktwice.eval.scoring.labels import labels
from looktwice.eval.scoring.unreadable import explain_missing_reply, get_reason, unreadable
from looktwice.eval.scoring.verdict import (
    UNJUDGED,
    PointScores,
    ReadResult,
    RunScores,
    Score,
    ScoredRecord,
    Scorer,
    Verdict,
    build_scorer,
    compare_with_key,
    get_cluster,
)
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError, is_foreign
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.marks import mark_from_dict
from looktwice.pipelines.model import Usage, find_price_fault, format_prices, get_amounts
from looktwice.pipelines.pipeline import NoModel, RecordingModel, StageFailed, run_stage
from looktwice.pipelines.sample import describe_key_fault
from looktwice.pipelines.state import Stage, State

if TYPE_CHECKING:
    from looktwice.pipelines.models.wrappers import UsageCount

NO_MODEL = NoModel("a reader may not call a model: scoring only reads what was recorded")
Prices = Mapping[str, Mapping[str, float]]
"""Money per million tokens (`in`, `out`, `cached`) by model: "" is the point's own model, others
are named by their identity."""
JudgementsByRecord = Mapping[JudgedWords, Mapping[str, Judgement]]
"""The judgements of one judge, by record and text, and then by pass."""


@dataclass(frozen=True)
class RecordScorer:
    """Extracts answers from records with one reader, which may not call a model, and compares them
    with the correct answers.

    `scorer` is the benchmark's own comparison, if it has one. `judgements` are those of one judge:
    its grade of a description, and its answer in a pass over every reply, replace the reader's
    answer; its answer in the pass over unreadable replies is used only for a reply that the reader
    could not read.
    """

    folder: RunFolder
    reader: Stage
    scorer: Scorer | None = None
    judgements: JudgementsByRecord = field(default_factory=dict)
    prices: Prices = field(default_factory=dict)

    def __call__(self, record: Record, row: SampleRow) -> ScoredRecord:
        """Score one record. An error in the reader makes only this record FAILED."""
        judged: Mapping[str, Judgement] = {}
        if self.judgements and not record.error:
            place = record.point, record.sample, record.draw, hash_judged_words(record)
            judged = self.judgements.get(place, {})
        # a judge's grade replaces the reader's answer; in the pass over unreadable replies, the
        # judge's answer counts only for these
        grade = judged.get(DESCRIPTION_PASS) or judged.get(EVERY_PASS)
        second = judged.get(UNREADABLE_PASS)
        result = self._extract_answer(record, row)
        needs_judge = self.scorer is not None and self.scorer.needs_judge
        if grade and result.verdict is not Verdict.FAILED:
            result = ReadResult(answer=grade.answer, read=True, judge=grade.judge)
            if grade.none:
                detail = f"{grade.judge} finds no answer"
                result = replace(unreadable("unread", detail), judge=grade.judge)
        elif (result.verdict is None or result.reason == "unread") and needs_judge:
            result = unreadable(UNJUDGED, "no judge has graded it")
        result, score = self._compare(record, row, result)
        if second and score.verdict is Verdict.UNREADABLE:
            if second.none:
                detail = result.detail or f"{second.judge} finds no answer either"
                result = replace(result, judge=second.judge, detail=detail)
            else:
                result = ReadResult(answer=second.answer, read=True, judge=second.judge)
                result, score = self._compare(record, row, result)
        tokens_in = tokens_out = 0
        for call in record.calls:
            usage = (call.get("reply") or {}).get("usage") or {}
            tokens_in += usage.get("tokens_in", 0)
            tokens_out += usage.get("tokens_out", 0)
        confidence = {} if record.confidence is None else {"confidence": record.confidence}
        return ScoredRecord(
            sample=row.id,  # the one that all arms share
            draw=record.draw,
            answer=result.answer,
            score=score,
            reason=result.reason,
            detail=result.detail,
            read=result.read,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost=sum_costs(record, self.prices),
            calls=len(record.calls),
            judge=result.judge,
            judged={name: mark for line in judged.values() for name, mark in line.scores.items()},
            measured={**confidence, **(record.measured or {})},
            request=record.request,
            kept=record.kept,
        )

    def _compare(
        self, record: Record, row: SampleRow, result: ReadResult
    ) -> tuple[ReadResult, Score]:
        if record.letters and result.answer is not None:
            own = record.letters.get(result.answer.strip(), result.answer)
            result = replace(result, answer=own)
        texts = getattr(self.reader, "accepts_only_letters", False)
        score = compare_with_key(result, row, self.scorer, texts)
        if score.verdict is Verdict.UNREADABLE and not result.reason:
            detail = f"{result.answer!r} is not an answer to this task"
            if row.n_choices:
                letters = ", ".join(ascii_uppercase[: row.n_choices])
                detail = f"the reader answered {result.answer!r}, which is not one of {letters}"
            result = replace(result, reason="unread", detail=detail)
        return result, score

    def _extract_answer(self, record: Record, row: SampleRow) -> ReadResult:
        letters = [chr(ord("A") + place) for place in range(row.n_choices)]
        fault = record.error
        if not fault and record.sample_sha and record.sample_sha != row.sha:
            fault = "the sample changed since this record was made; run it again"
        if fault := fault or describe_key_fault(row.answer, len(letters)):
            return ReadResult(Verdict.FAILED, detail=fault)
        if record.answer is None:
            return explain_missing_reply(record) or self._read(record, row)
        if letters and record.answer.strip() not in letters:  # from a stage: unreadable, not wrong
            answers = ", ".join(letters)
            detail = f"the stages answered {record.answer!r}, which is not one of {answers}"
            return replace(unreadable("unread", detail), answer=record.answer)
        return ReadResult(answer=record.answer)

    def _read(self, record: Record, row: SampleRow) -> ReadResult:
        try:
            sample = row.without_pixels(self.folder.blobs, record.choices)
            if record.marks is not None:
                sample = replace(sample, marks=tuple(map(mark_from_dict, record.marks)))
            messages = self.folder.messages(record)
            state = State(sample, prompt=sample.question, messages=messages, draw=record.draw)
            after = run_stage("read", self.reader, state, RecordingModel(NO_MODEL, record.sample))
        except StageFailed as exc:
            return ReadResult(Verdict.FAILED, detail=describe_failure(exc.__cause__ or exc))
        except (OSError, ValueError, KeyError, TypeError) as exc:
            detail = f"the conversation cannot be rebuilt: {type(exc).__name__}: {exc}"
            return ReadResult(Verdict.FAILED, detail=detail)
        if after.answer is not None:
            return ReadResult(answer=after.answer, read=True)
        cut = record.last_reply is not None and record.last_reply.get("finish") == "length"
        return unreadable("cut_off" if cut else get_reason(after.reason), after.reason)


def read_prices(point: PointRow | Arm, binder: Binder) -> Prices:
    """Return the `prices` of the point's model and of models inside its stages, if they have any.

    Raises RunError for invalid prices in a run folder.
    """
    prices = {}
    for own, node in _priced_nodes(point):
        if fault := find_price_fault(node["prices"]):
            raise RunError(f"points.yaml, {point.contestant}: {fault}; fix the line")
        prices["" if own else binder.make(node).identity] = get_amounts(node["prices"])
    return prices


def price_lines(arms: Iterable[PointRow | Arm]) -> list[str]:
    """Return a sentence for each model with prices, with their date and source if known."""
    lines = dict.fromkeys(
        f"prices of {node.get('model') or node.get('use')}: {format_prices(node['prices'])}"
        for arm in arms
        for _, node in _priced_nodes(arm)
    )
    return list(lines)


def _priced_nodes(point: PointRow | Arm) -> Iterator[tuple[bool, Mapping[str, Any]]]:
    """Yield the nodes of the point's own model, if it has prices, and of the models inside its
    stages."""
    model = point.spec.get("model")
    if isinstance(model, Mapping) and model.get("prices"):
        yield True, model
    left = [point.spec.get("stages")]
    while left:
        node = left.pop(0)
        if isinstance(node, Mapping):
            if node.get("prices"):
                yield False, node
            node = list(node.values())
        left = [*(node if isinstance(node, list | tuple) else ()), *left]


def sum_costs(record: Record, prices: Prices) -> float | None:
    """Return the list price of the record's calls; None if a model that was called has no prices,
    or its tokens were not counted.

    A reply from the cache counts at its original cost. Input tokens from the server's own cache
    cost `cached` if that price is given. A request that the filter refused has no tokens.
    """
    if not prices:
        return None
    cost: float = 0
    for call in record.calls:
        if reply := call.get("reply"):
            usage, model = reply.get("usage") or {}, call.get("model", "")
            counted = reply.get("finish") == "filter" or usage.get("tokens_in")
            if model not in prices or not counted:
                return None
            cost += estimate_price(Usage(**usage), prices[model])
    return cost


def estimate_price(usage: Usage | UsageCount, prices: Mapping[str, float]) -> float:
    """Return the list price of these tokens, where some input tokens may come from the server's own
    cache.

    A server that reports more cached than input tokens does not include the cached ones in the
    input.
    """
    fresh = usage.tokens_in - (usage.cached_tokens if usage.cached_tokens <= usage.tokens_in else 0)
    reused = usage.cached_tokens * prices.get("cached", prices["in"])
    return (fresh * prices["in"] + reused + usage.tokens_out * prices["out"]) / 1e6


# ---- a whole run


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

    `reader` replaces the readers of the run. Readers and the benchmarks' scorers are the objects of
    `plan` if the run was just made from it; otherwise they are built from points.yaml, with classes
    of looktwice and the loaded `plugins`. If the run was judged, the judgements of one judge are
    used: `judge` names it, "" takes the judge that read most, "none" uses no judge. No judge is
    called here. Raises RunError if `folder` is not a run folder, and if a class of a plugin is
    missing. A reader that raises makes only that record FAILED.
    """
    judged = judgements(folder.path, judge)
    present, older = folder.current_and_earlier_points
    shown = [*present, *older] if all_arms else present
    names, planned = labels([*present, *older]), folder.facts.get("planned") or {}
    tools = ScoringTools(folder, plan, tuple(plugins), reader, judged.by_record())
    clusters = _clusters_by_task(folder, shown)
    arms = list[PointScores]()
    scored = list[dict[str, dict[int, ScoredRecord]]]()  # one for each arm, filled by record
    readers = defaultdict[str, list[int]](list)  # the indices of the arms that read a record
    for place, point in enumerate(shown):
        scorer, samples = tools.record_scorer(point), folder.samples_by_task.get(point.task_id, {})
        scored.append({name: {} for name in samples})
        contestant, task = names[point.id]
        arms.append(
            PointScores(
                point,
                samples,
                scored[place],
                contestant=contestant,
                task=task,
                planned=0 if place >= len(present) else planned.get(point.task_id),
                scorer=scorer.scorer,
                score=scorer,
                older=place >= len(present),
                run_clusters=clusters[point.task],
            )
        )
        readers[point.records_id].append(place)
    # without a plan, all existing draws count
    whole, hidden_draws = all_arms or not folder.facts.get("arms"), 0
    for record in folder.last_records():  # one at a time: a large run is never in memory as a whole
        for place in readers.get(record.point, ()):
            arm = arms[place]
            if not whole and record.draw >= arm.point.draws:
                hidden_draws += not arm.point.replies_of
            elif arm.score and (row := arm.samples.get(record.sample)):
                scored[place][record.sample][record.draw] = arm.score(record, row)
    hidden = () if all_arms else tuple(" on ".join(names[point.id]) for point in older)
    return RunScores(folder, tuple(map(_with_readers, arms)), judged, hidden, hidden_draws)


def _clusters_by_task(
    folder: RunFolder, points: Sequence[PointRow]
) -> Mapping[str, Mapping[str, str]]:
    """Return the cluster of each sample by name of its task: that of the task's first variant,
    because others may change the pictures."""
    clusters = defaultdict[str, dict[str, str]](dict)
    for task, task_id in dict.fromkeys((point.task, point.task_id) for point in points):
        for name, row in folder.samples_by_task.get(task_id, {}).items():
            clusters[task].setdefault(name, get_cluster(task, row))
    return clusters


def _with_readers(scores: PointScores) -> PointScores:
    """Return the scores with the names of what extracted the answers: the reader if it was needed,
    and each judge whose judgements were used."""
    names, was_needed = dict[str, None](), False
    for entry in scores.all:
        if entry.judge:
            names[f"judge {entry.judge}"] = None
        else:
            was_needed |= entry.read or entry.reason == "unread"
    if was_needed and isinstance(scores.score, RecordScorer):
        names = {get_reader_name(scores.score.reader): None} | names
    return replace(scores, reader=" + ".join(names))


@dataclass(frozen=True)
class ScoringTools:
    """Builds the scorers of a run's records: from the arms of its plan, or else from
    points.yaml."""

    folder: RunFolder
    plan: Plan | None = None
    plugins: tuple[str, ...] = ()
    reader: Stage | None = None
    judgements: JudgementsByRecord = field(default_factory=dict)

    def record_scorer(self, point: PointRow) -> RecordScorer:
        """Return the scorer of one point's records. Raises RunError if a class cannot be built."""
        if point.id in self.of_plan:
            return self.of_plan[point.id]
        try:
            binder = Binder.for_run(self.folder.path, self.plugins)
            reader = self.reader or (binder.make(point.read) if point.read else Robust())
            scorer, prices = build_scorer(point.facts, binder), read_prices(point, binder)
        except ConfigError as exc:
            raise RunError(f"{self.folder.path}: {self._explain(point, exc)}") from exc
        return RecordScorer(self.folder, reader, scorer, self.judgements, prices)

    @cached_property
    def of_plan(self) -> Mapping[str, RecordScorer]:
        """The scorers of the plan's arms by id, built from the plan's own objects rather than from
        points.yaml. Raises ConfigError."""
        if self.plan is None:
            return {}
        binder = Binder.for_checked_paths(self.plan.plugins)
        scorers = {}
        for arm in (*self.plan.points, *self.plan.readings):
            try:
                scorer = build_scorer({"scorer": arm.task.facts.scorer}, binder)
            except ConfigError as exc:
                place = f"tasks.{arm.task_name}: the scorer of its facts"
                raise ConfigError([f"{place}: {exc}"]) from exc
            reader, prices = self.reader or arm.read, read_prices(arm, binder)
            scorers[arm.id] = RecordScorer(self.folder, reader, scorer, self.judgements, prices)
        return scorers

    def _explain(self, point: PointRow, exc: ConfigError) -> str:
        """Explain which class cannot be built, and what to type if it belongs to a plugin that was
        not named."""
        nodes = {"reader": point.read, "scorer": point.facts.get("scorer") or {}}
        for kind, node in nodes.items():
            use = str(node.get("use", ""))
            module, _, rest = use.partition(".")
            if module in self.plugins or not is_foreign(use) or (kind == "reader" and self.reader):
                continue
            name = rest.rpartition(".")[2]
            replaced = f"pass score_table(..., reader={name}()), " if kind == "reader" else ""
            if module == "__main__":
                return (
                    f"its {kind} {use} is a class of the script or notebook that made the run. Call"
                    f" evaluate() there again, which repeats no request, {replaced}or move the"
                    " class to a file of its own"
                )
            files = {module: module if "." in rest else f"{module}.py"}
            for plugin in self.folder.facts.get("plugins") or ():
                files[str(plugin["name"])] = str(plugin["path"])
            options = " ".join(f"--plugin {shlex.quote(path)}" for path in files.values())
            return (
                f"its {kind} {use} is a class of the plugin {files[module]}, and code is loaded"
                " only if you name it: add it to the command, as in `looktwice score"
                f" {shlex.quote(str(self.folder.path))} {options}`; in Python"
                f" {replaced and replaced + 'or '}import {module} and pass `plugins=[{module!r}]`"
            )
        return f"{point.contestant} on {point.task} cannot be scored: {exc}"
