"""Scored records: the score of one record, and the scored records of a run as columns of numbers,
so that a million records fit into memory."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from numpy.typing import NDArray

from looktwice.eval.records.records import Record

UNJUDGED = "unjudged"
"""The reply needs a judge's grade and has none yet, so it counts in no accuracy."""
ABSTAINED = "abstained"
"""A stage gave no answer because it found no evidence for one."""


class Verdict(StrEnum):
    """The outcome of one sample; each verdict is counted separately everywhere.

    HIDDEN means that there is an answer, but no correct answer to compare it with.
    """

    RIGHT = "right"
    WRONG = "wrong"
    UNREADABLE = "unreadable"
    FAILED = "failed"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The result of extracting an answer, before it is compared with the correct one; `judge` names
    the judge that found the answer."""

    verdict: Verdict | None = None
    answer: str | None = None
    reason: str = ""
    detail: str = ""
    read: bool = False
    judge: str = ""


REASONS = ("unread", "refused", "empty", "cut_off", "filtered", ABSTAINED, UNJUDGED)
"""The reasons for which an answer is UNREADABLE."""
CUT_IN_REASONING_DETAIL = (
    "the reply was cut off within its field `reasoning`, before any text; raise `max_tokens` or"
    " lower `effort`"
)
ONLY_REASONING_DETAIL = (
    "the whole reply is in its field `reasoning` and its text is empty; start the server without a"
    " reasoning parser, or with the right one for this model, or switch thinking off, for example"
    " with `extra: {chat_template_kwargs: {enable_thinking: false}}` of the model"
)
ONLY_TOOL_CALLS_DETAIL = (
    "the reply calls a tool and has no text; use prompting.agent.Agent for tool calls"
)


def make_unreadable(reason: str, detail: str = "") -> ReadResult:
    """Return the result for an answer that cannot be read; `reason` is one of REASONS."""
    return ReadResult(Verdict.UNREADABLE, reason=reason, detail=detail)


def explain_missing_reply(record: Record) -> ReadResult | None:
    """Return the result that explains why there is no reply to read, or None if there is one."""
    reply = record.last_reply
    if record.reason or reply is None:
        detail = record.reason or "no stage called a model or answered"
        return make_unreadable(get_reason(record.reason), detail)
    if reply.get("finish") == "filter":
        return make_unreadable("filtered", reply["text"])
    if reply.get("refusal"):
        return make_unreadable("refused", reply["refusal"])
    if reply["text"].strip():
        return None
    cut = reply.get("finish") == "length"
    detail = ""
    if str(reply.get("reasoning") or "").strip():
        detail = CUT_IN_REASONING_DETAIL if cut else ONLY_REASONING_DETAIL
    elif reply.get("tool_calls"):
        detail = ONLY_TOOL_CALLS_DETAIL
    return make_unreadable("cut_off" if cut else "empty", detail)


def get_reason(sentence: str) -> str:
    """Return the member of REASONS with which a stage's sentence begins, or "unread" if there is
    none."""
    kind = sentence.partition(":")[0].strip()
    return kind if kind in REASONS else "unread"


@dataclass(frozen=True, slots=True)
class Score:
    """A verdict and a value in 0..1; samples of one `group` count as one unit."""

    verdict: Verdict
    value: float = 0.0
    group: str = ""

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, right: bool, group: str = "") -> Score:
        """Return the score of an answer that is right or wrong."""
        return cls(Verdict.RIGHT if right else Verdict.WRONG, float(right), group)

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a score must lie in 0..1, got {self.value}")


class ScoredRecord(NamedTuple):
    """The answer extracted from one record, and its score.

    `reason` is one of REASONS for UNREADABLE, `detail` the sentence or traceback behind a reason or
    a failure. `read` is True if the answer was extracted from a reply (otherwise a stage set it).
    Tokens and `cost` (at list price) are totals over all `calls` of the record. `judge` names the
    judge who gave the verdict, and `judged` holds that judge's scores by criterion. `measured` are
    the record's measurements, with its `confidence` if a stage gave one. `request` is the digest of
    what was sent (`Record.request`), and `kept` holds the notes of stages that found nothing to do.
    """

    sample: str
    draw: int
    answer: str | None
    score: Score
    reason: str = ""
    detail: str = ""
    read: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    calls: int = 0
    judge: str = ""
    judged: Mapping[str, float] = {}
    measured: Mapping[str, Any] = {}
    request: bytes = b""
    kept: Sequence[str] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict of the score."""
        return self.score.verdict

    @property
    def graded_value(self) -> float | None:
        """The value of the score; None if only a judge could give one and none has."""
        return None if self.reason == UNJUDGED else self.score.value


VERDICTS = tuple(Verdict)
CODE_BY_VERDICT = {verdict: code for code, verdict in enumerate(VERDICTS)}
NOT_SCORED_CODE = 255
"""The code that a record has instead of a verdict if its draw is not in the current plan."""
DIGEST_BYTES = 16
NO_DIGEST = bytes(DIGEST_BYTES)
UNKNOWN_COST = float("nan")
MAX_PENDING_ROWS = 10_000
COLUMN_TYPES = {
    "arm": "i",
    "sample": "i",
    "draw": "i",
    "verdict": "B",
    "value": "d",
    "tokens_in": "q",
    "tokens_out": "q",
    "cost": "d",
    "calls": "i",
    "begin": "q",
    "words": "i",
    "group": "i",
    "measured": "i",
    "judged": "i",
}
"""The columns and their type codes for `array`: `arm` is the index of the arm in its run, `sample`
the index of the sample in its task; `cost` is NaN if it is not known; `begin` is the byte of
records.jsonl at which the record begins, or -1. The last four columns hold codes of values in
pools."""
RECORD_COLUMNS = tuple(name for name in COLUMN_TYPES if name not in ("arm", "begin"))
POOLED_COLUMNS = ("words", "group", "measured", "judged")
Column = NDArray[Any]
Columns = Mapping[str, Column]


class Words(NamedTuple):
    """The texts of a scored record, which many records share."""

    answer: str | None
    reason: str
    detail: str
    read: bool
    judge: str
    kept: tuple[str, ...]


class Pool:
    """Distinct values by code, in the order in which they were added; `make` converts a key to the
    value that is stored."""

    def __init__(self, make: Callable[[Any], Any] | None = None) -> None:
        self.values, self._codes = list[Any](), dict[Any, int]()
        self._make = make
        self._parsed = list[Mapping[str, Any]]()

    @property
    def parsed_values(self) -> Sequence[Mapping[str, Any]]:
        """The values, parsed from JSON."""
        for text in self.values[len(self._parsed) :]:
            self._parsed.append(parse_values(text))
        return self._parsed

    def extend(self, values: Iterable[Any]) -> None:
        """Add distinct new values with the next codes."""
        for value in values:
            self._codes[value] = len(self.values)
            self.values.append(value)

    def get_code(self, value: Any) -> int:
        """Return the code of a value, which is added if it is new."""
        if (code := self._codes.get(value)) is None:
            value = self._make(value) if self._make else value
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code


class RecordColumns:
    """The scored records of a run, in the order of its lines. A later record with the key (arm,
    sample, draw) of an earlier one replaces it."""

    def __init__(self) -> None:
        self.columns: dict[str, array[Any]] = {
            name: array(kind) for name, kind in COLUMN_TYPES.items()
        }
        self.requests = bytearray()
        self.pools = {"words": Pool(make=Words._make)}
        self.pools |= {name: Pool() for name in POOLED_COLUMNS if name != "words"}
        self._get_codes = [self.pools[name].get_code for name in POOLED_COLUMNS]
        self._waiting = list[tuple[Any, ...]]()  # rows not yet in the columns

    def add(self, arm: int, sample: int, scored: ScoredRecord, begin: int = -1) -> None:
        """Add a scored record, with the indices of its arm and sample, and the byte at which its
        line begins."""
        _, draw, answer, score, reason, detail, read, *counts = scored[:11]
        tokens_in, tokens_out, cost, calls = counts
        judge, judged, measured, request, kept = scored[11:]
        get_words, get_group, get_measured, get_judged = self._get_codes
        digest = request or NO_DIGEST
        if len(digest) != DIGEST_BYTES:
            digest = hashlib.blake2b(digest, digest_size=DIGEST_BYTES).digest()
        self._waiting.append(
            (
                arm,
                sample,
                draw,
                CODE_BY_VERDICT[score.verdict],
                score.value,
                tokens_in,
                tokens_out,
                UNKNOWN_COST if cost is None else cost,
                calls,
                begin,
                get_words((answer, reason, detail, read, judge, tuple(kept))),
                get_group(score.group),
                get_measured(format_values(measured) if measured else ""),
                get_judged(format_values(judged) if judged else ""),
                digest,
            )
        )
        if len(self._waiting) >= MAX_PENDING_ROWS:
            self.append_pending()

    def add_unscored(self, arm: int, sample: int, draw: int) -> None:
        """Add a record whose draw is not in the current plan."""
        rest = [0] * (len(COLUMN_TYPES) - 4)
        self._waiting.append((arm, sample, draw, NOT_SCORED_CODE, *rest, NO_DIGEST))

    def append_pending(self) -> None:
        """Append the pending rows to the columns."""
        if self._waiting:
            *numbers, requests = zip(*self._waiting, strict=True)
            for column, values in zip(self.columns.values(), numbers, strict=True):
                column.extend(values)
            self.requests += b"".join(requests)
            self._waiting.clear()


def format_values(values: Mapping[str, Any]) -> str:
    """Return measurements, or a judge's scores, as JSON; empty if there are none."""
    return json.dumps(dict(values), ensure_ascii=False) if values else ""


def parse_values(text: str) -> Mapping[str, Any]:
    """Return measurements, or a judge's scores, from their JSON."""
    return json.loads(text) if text else {}
