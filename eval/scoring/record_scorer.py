"""Scores one record: reads its reply without any model call, compares the answer with the correct
one, and sums the list prices of its calls."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from looktwice.eval.readers.reader import TextReader
from looktwice.eval.records.judgements import (
    DESCRIPTION_PASS,
    EVERY_PASS,
    MATCH_CRITERION,
    UNREADABLE_PASS,
    JudgedReply,
    Judgement,
    hash_judged_text,
)
from looktwice.eval.records.records import PointRow, Record, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import describe_failure
from looktwice.eval.scoring.columns import explain_missing_reply, get_reason, make_unreadable
from looktwice.eval.scoring.labels import find_priced_nodes
from looktwice.eval.scoring.verdict import (
    UNJUDGED,
    ReadResult,
    Score,
    ScoredRecord,
    Scorer,
    Verdict,
    compare_with_key,
)
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.json_input import is_text
from looktwice.pipelines.marks import mark_from_dict
from looktwice.pipelines.model import Usage, find_price_fault, get_amounts
from looktwice.pipelines.models.keys import list_known_keys
from looktwice.pipelines.pipeline import NoModel, RecordingModel, StageFailed, run_stage
from looktwice.pipelines.sample import Sample, describe_key_fault
from looktwice.pipelines.state import Stage, State

if TYPE_CHECKING:
    from looktwice.pipelines.models.wrappers import UsageCount

NO_MODEL = NoModel("a reader may not call a model: scoring only reads what was recorded")
Prices = Mapping[str, Mapping[str, float]]
"""Prices per million tokens (`in`, `out`, `cached`) by model: "" stands for the point's own model,
others are named by their identity."""
JudgementsByRecord = Mapping[JudgedReply, Mapping[str, Judgement]]
"""The judgements of one judge, by record and text, and then by the judge's pass."""


READING_STEPS = ("__call__", "read", "read_masked", "read_reply")
"""The methods through which a text reader is called as a stage."""
MAX_CACHED_SAMPLES, MAX_CACHED_REPLIES = 5_000, 20_000
"""The largest number of samples, and of replies, that are cached."""


class ReadingCache:
    """A cache of readers' results, so that equal replies to a question are read once."""

    def __init__(self) -> None:
        self._results = dict[Any, tuple[SampleRow, tuple[ReadResult, Score]]]()
        self._rules = dict[Hashable, int]()
        self._samples = dict[int, tuple[SampleRow, Sample]]()

    def identify_rules(self, *rules: object) -> object:
        """Return an identifier for these objects, which is the same for equal objects that can be
        hashed."""
        try:
            return self._rules.setdefault(rules, len(self._rules))
        except TypeError:
            return object()

    def get_result(self, row: SampleRow, key: Hashable) -> tuple[ReadResult, Score] | None:
        """Return the cached result for this sample and key, or None."""
        found = self._results.get((id(row), key))
        return found[1] if found and found[0] is row else None

    def keep(self, row: SampleRow, key: Hashable, result: tuple[ReadResult, Score]) -> None:
        """Cache a result; the cache is cleared when it becomes too large."""
        if len(self._results) >= MAX_CACHED_REPLIES:
            self._results.clear()
        self._results[id(row), key] = row, result

    def get_sample(self, row: SampleRow, folder: RunFolder) -> Sample:
        """Return the sample of a row as a reader sees it, from the cache if possible. Raises
        RunError."""
        found = self._samples.get(id(row))
        if found is None or found[0] is not row:
            if len(self._samples) >= MAX_CACHED_SAMPLES:
                self._samples.clear()
            found = self._samples[id(row)] = row, row.without_pixels(folder.blobs)
        return found[1]


@dataclass(frozen=True)
class RecordScorer:
    """Extracts answers from records with one reader, which may not call a model, and compares the
    answers with the correct ones.

    `scorer` is the benchmark's own comparison, if it has one. `judgements` holds the judgements of
    one judge. Three of them replace the reader's answer: the grade of a description, the comparison
    with the correct answer, and the answer in a pass over every reply. The answer in the pass over
    unreadable replies is used only for a reply that the reader could not read.
    """

    folder: RunFolder
    reader: Stage
    scorer: Scorer | None = None
    judgements: JudgementsByRecord = field(default_factory=dict)
    prices: Prices = field(default_factory=dict)
    memory: ReadingCache = field(default_factory=ReadingCache, compare=False, repr=False)

    def __call__(self, record: Record, row: SampleRow) -> ScoredRecord:
        """Score one record. An error in the reader or scorer makes only this record FAILED."""
        judged: Mapping[str, Judgement] = {}
        if self.judgements and not record.error:
            place = record.point, record.sample, record.draw, hash_judged_text(record)
            judged = self.judgements.get(place, {})
        result, score = (
            self._score_with_judge(record, row, judged) if judged else self._score(record, row)
        )
        tokens_in = tokens_out = 0
        for call in record.calls:
            if (reply := call.get("reply")) and (usage := reply.get("usage")):
                tokens_in += usage.get("tokens_in", 0)
                tokens_out += usage.get("tokens_out", 0)
        measured = record.measured or {}
        if record.confidence is not None:
            measured = {"confidence": record.confidence, **measured}
        return ScoredRecord(
            row.id,  # one object for all arms
            record.draw,
            result.answer,
            score,
            result.reason,
            result.detail,
            result.read,
            tokens_in,
            tokens_out,
            sum_costs(record, self.prices) if self.prices else None,
            len(record.calls),
            result.judge,
            _get_judge_scores(judged) if judged else {},
            measured,
            record.request,
            record.kept_notes,
        )

    def _score_with_judge(
        self, record: Record, row: SampleRow, judged: Mapping[str, Judgement]
    ) -> tuple[ReadResult, Score]:
        """Return the result and score of a record that a judge was asked about."""
        # a judge's grade replaces the reader's answer; in the pass over unreadable replies, the
        # judge's answer counts only for these
        matched = next((line for line in judged.values() if MATCH_CRITERION in line.scores), None)
        grade = judged.get(DESCRIPTION_PASS) or matched or judged.get(EVERY_PASS)
        second = judged.get(UNREADABLE_PASS)
        result = self._extract_answer(record, row)
        if grade and result.verdict is not Verdict.FAILED:
            if grade.scores.get(MATCH_CRITERION) == 0:
                result = ReadResult(Verdict.WRONG, result.answer, read=True, judge=grade.judge)
            else:
                result = ReadResult(answer=grade.answer, read=True, judge=grade.judge)
            if grade.none:
                detail = f"{grade.judge} finds no answer"
                result = replace(make_unreadable("unread", detail), judge=grade.judge)
        else:
            result = self._defer_to_judge(result)
        result, score = self._compare(record, row, result)
        if second and score.verdict is Verdict.UNREADABLE:
            if second.none:
                detail = result.detail or f"{second.judge} finds no answer either"
                result = replace(result, judge=second.judge, detail=detail)
            else:
                result = ReadResult(answer=second.answer, read=True, judge=second.judge)
                result, score = self._compare(record, row, result)
        return result, score

    def _defer_to_judge(self, result: ReadResult) -> ReadResult:
        needs_judge = self.scorer is not None and self.scorer.needs_judge
        if (result.verdict is None or result.reason == "unread") and needs_judge:
            return make_unreadable(UNJUDGED, "no judge has graded it")
        return result

    def _score(self, record: Record, row: SampleRow) -> tuple[ReadResult, Score]:
        """Return the result and score of a record without judgements. The result for a plain reply
        is cached for equal replies to the same sample."""
        calls = record.calls
        reply = calls[-1].get("reply") if calls and self.reads_only_reply else None
        key: Hashable = None
        if reply and record.answer is None and not (record.error or record.letters):
            changed = record.choices and tuple(map(str, record.choices))
            finish, refusal = reply.get("finish"), reply.get("refusal")
            marked, shown = record.marks is not None, (changed, record.sample_sha)
            known = record.reason, reply["text"], finish, refusal, marked, *shown
            key = self._rules, known
            if not marked and (found := self.memory.get_result(row, key)):
                return found
        result = self._defer_to_judge(self._extract_answer(record, row))
        scored = self._compare(record, row, result)
        if key and not (reply and (reply.get("reasoning") or reply.get("tool_calls"))):
            self.memory.keep(row, key, scored)
        return scored

    def _compare(
        self, record: Record, row: SampleRow, result: ReadResult
    ) -> tuple[ReadResult, Score]:
        if record.letters and result.answer is not None:
            own = record.letters.get(result.answer.strip(), result.answer)
            result = replace(result, answer=own)
        texts = getattr(self.reader, "accepts_only_letters", False)
        try:
            score = compare_with_key(result, row, self.scorer, texts)
        except ValueError as exc:  # the benchmark cannot compare with this correct answer
            result = ReadResult(Verdict.FAILED, detail=describe_failure(exc))
            score = compare_with_key(result, row, self.scorer, texts)
        if score.verdict is Verdict.UNREADABLE and not result.reason:
            detail = f"{result.answer!r} is not an answer to this task"
            if row.n_choices:
                letters = ", ".join(ascii_uppercase[: row.n_choices])
                detail = f"the reader answered {result.answer!r}, which is not one of {letters}"
            result = replace(result, reason="unread", detail=detail)
        return result, score

    def _extract_answer(self, record: Record, row: SampleRow) -> ReadResult:
        letters = _get_letters(row.n_choices)
        fault = record.error
        if not fault and record.sample_sha and record.sample_sha != row.sha:
            fault = "the sample changed since this record was made; run it again"
        if fault := fault or _find_key_fault(row.answer, len(letters)):
            return ReadResult(Verdict.FAILED, detail=fault)
        if record.answer is None:
            return explain_missing_reply(record) or self._read(record, row)
        if letters and record.answer.strip() not in letters:  # from a stage: unreadable, not wrong
            answers = ", ".join(letters)
            detail = f"the stages answered {record.answer!r}, which is not one of {answers}"
            return replace(make_unreadable("unread", detail), answer=record.answer)
        return ReadResult(answer=record.answer)

    def _read(self, record: Record, row: SampleRow) -> ReadResult:
        reply = record.calls[-1].get("reply") if record.calls else None
        reader = self._text_reader if reply else None
        found = self._read_reply(reader, record, row) if reader else None
        return found or self._read_as_stage(record, row)

    def _read_reply(self, reader: TextReader, record: Record, row: SampleRow) -> ReadResult | None:
        """Return the result of `_read_as_stage` without rebuilding the conversation, for a reader
        that does not use it; return None in unusual cases."""
        try:
            if record.marks is not None:
                [*map(mark_from_dict, record.marks)]  # a damaged one is reported
            if record.choices is None:
                sample = self.memory.get_sample(row, self.folder)
            else:
                sample = row.without_pixels(self.folder.blobs, record.choices)
            reply = record.calls[-1]["reply"]["text"]
            reading = reader.read_reply(reply, sample, self._keys)
        except Exception:
            return None
        for text in (reading.answer, reading.reason):
            if text is not None and not (isinstance(text, str) and is_text(text)):
                return None
        return _interpret(record, reading.answer, reading.reason)

    @cached_property
    def _text_reader(self) -> TextReader | None:
        """The reader, if its result depends only on the reply and the sample's texts; None if the
        reader overrides a step around `read_text`, because then it may use the whole
        conversation."""
        reader = self.reader
        if not isinstance(reader, TextReader):
            return None
        is_own = any(
            getattr(type(reader), name) is not getattr(TextReader, name) for name in READING_STEPS
        )
        return None if is_own else reader

    @property
    def reads_only_reply(self) -> bool:
        """True if the reader's result depends only on the reply and the sample's texts."""
        return self._text_reader is not None

    @cached_property
    def _rules(self) -> object:
        """An identifier of the reader and scorer, which is the same for equal readers and
        scorers."""
        return self.memory.identify_rules(self.reader, self.scorer)

    @cached_property
    def _keys(self) -> Sequence[str]:
        return list_known_keys()

    def _read_as_stage(self, record: Record, row: SampleRow) -> ReadResult:
        """Run the reader as a stage, with the whole conversation of the record."""
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
        return _interpret(record, after.answer, after.reason)


_find_key_fault = lru_cache(maxsize=1024)(describe_key_fault)


@lru_cache
def _get_letters(count: int) -> tuple[str, ...]:
    return tuple(chr(ord("A") + place) for place in range(count))


def _get_judge_scores(judged: Mapping[str, Judgement]) -> dict[str, float]:
    """Return the scores that judges gave, by criterion, leaving out the comparison with the correct
    answer."""
    marks = dict[str, float]()
    for line in judged.values():
        marks |= {name: mark for name, mark in line.scores.items() if name != MATCH_CRITERION}
    return marks


@lru_cache(maxsize=1024)
def _make_read_result(answer: str) -> ReadResult:
    return ReadResult(answer=answer, read=True)


def _interpret(record: Record, answer: str | None, reason: str) -> ReadResult:
    if answer is not None:
        return _make_read_result(answer)
    cut = record.last_reply is not None and record.last_reply.get("finish") == "length"
    return make_unreadable("cut_off" if cut else get_reason(reason), reason)


def read_prices(point: PointRow | Arm, binder: Binder) -> Prices:
    """Return the `prices` of the point's model and of models inside its stages, if they have any.

    Raises RunError for invalid prices in a run folder.
    """
    prices = {}
    for own, node in find_priced_nodes(point):
        if fault := find_price_fault(node["prices"]):
            raise RunError(f"points.yaml, {point.contestant}: {fault}; fix the line")
        prices["" if own else binder.build(node).identity] = get_amounts(node["prices"])
    return prices


def sum_costs(record: Record, prices: Prices) -> float | None:
    """Return the list price of the record's calls; None if a model that was called has no prices,
    or its tokens were not counted.

    A reply from the cache counts at the original cost of the reply. Input tokens from the server's
    own cache cost `cached` if that price is given. A request that the filter refused has no tokens.
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
    """Return the list price of these tokens, some of which may come from the server's own cache.

    If a server reports more cached tokens than input tokens, it does not count the cached ones as
    input.
    """
    fresh = usage.tokens_in - (usage.cached_tokens if usage.cached_tokens <= usage.tokens_in else 0)
    reused = usage.cached_tokens * prices.get("cached", prices["in"])
    return (fresh * prices["in"] + reused + usage.tokens_out * prices["out"]) / 1e6
