"""Analyses the tool calls ("looks") of agents: which tools, which regions, their effect on the
answer, their cost.

Everything is computed from the records. The answer before a look is what the point's reader finds
in the reply that asked for the look, or in the reply to the agent's probe; the answer after the
last look is the final one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from looktwice.eval.display.text_tables import TextTable, percent
from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.scoring.labels import baselines
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.pipelines.geometry import Rect, iou, overlap
from looktwice.pipelines.marks import Box, Mark, Mask, bounding_box, mark_from_dict
from looktwice.pipelines.model import Reply
from looktwice.prompting.agent.episode import EpisodeEnd, Look, read_end, read_looks


@dataclass(frozen=True)
class AgentRecord:
    """One record of an agent: its looks, why they ended, and the verdicts before each turn with
    looks and at the end.

    A verdict is None if the reply contained no answer. `overlaps` are, for each zoom, the
    intersection over union with the marked region and the share of that region that it shows.
    `first_tokens` are those up to the first answer.
    """

    looks: tuple[Look, ...]
    end: EpisodeEnd
    verdicts: tuple[Verdict | None, ...]
    score: float
    tokens: int
    first_tokens: int
    overlaps: tuple[tuple[float, float], ...] = ()

    def flips(self, before: Verdict | None, after: Verdict) -> int:
        """How often a look changed the verdict from `before` to `after`; without a new answer the
        old one stays."""
        carried: list[Verdict | None] = []
        for verdict in self.verdicts:
            carried.append(verdict or (carried[-1] if carried else None))
        return sum(pair == (before, after) for pair in pairwise(carried))


@dataclass(frozen=True)
class TurnCount:
    """The records of one episode length: `turns` is the number of replies with tool calls."""

    turns: int
    n: int
    accuracy: float
    tokens: float


@dataclass(frozen=True)
class LookSummary:
    """The looks of one arm. Rates and means are over its records; shares lie in 0..1, None without
    any data.

    `iou` and `covered` are means over all zooms with a marked region. `answered_right`, `to_right`
    and `to_wrong` count looks that changed no answer to right, wrong to right, and right to wrong.
    `tokens_per_gain` are the additional tokens per sample for each percentage point gained over the
    baseline, or over the first answer if there is no baseline; `compared_with` says which.
    """

    contestant: str
    task: str
    n: int
    looks: float
    tools: Mapping[str, int]
    outcomes: Mapping[str, int]
    ended_by: Mapping[str, int]
    iou: float | None
    covered: float | None
    first_accuracy: float
    final_accuracy: float
    answered_right: int
    to_right: int
    to_wrong: int
    tokens: float
    tokens_per_gain: float | None
    compared_with: str
    by_turns: tuple[TurnCount, ...] = field(default=(), repr=False)


def summarize_looks(run: RunScores) -> list[LookSummary]:
    """The looks of every arm of a run that has an agent."""
    points = run.by_id
    found = defaultdict[str, list[AgentRecord]](list)
    for scores, record in run.records(holding='"ended {'):  # as an agent's last note begins
        if (one := agent_record(scores, record)) is not None:
            found[scores.point.id].append(one)
    compared = baselines(run)
    return [
        _summarize(points[name], found[name], compared[name]) for name in points if name in found
    ]


def agent_record(scores: PointScores, record: Record) -> AgentRecord | None:
    """A record of an arm in which an agent finished its episode; None for another one."""
    end, row = read_end(record.notes), scores.samples.get(record.sample)
    final = scores.result_of(record)
    if end is None or final is None or row is None:
        return None
    looks = tuple(read_looks(record.notes))
    asked: dict[int, int] = {}
    for look in looks:
        asked.setdefault(look.call, look.call if look.probe is None else look.probe)
    before = [_verdict_at(scores, record, row, place) for place in asked.values()]
    tokens = [_tokens(call) for call in record.calls]
    first_tokens = sum(tokens[: 1 + next(iter(asked.values()), len(tokens))])
    verdicts = (*before, _right_or_wrong(final.verdict))
    overlaps = tuple(_overlaps(looks, _targets(record, row)))
    return AgentRecord(looks, end, verdicts, final.score.value, sum(tokens), first_tokens, overlaps)


def look_table(summaries: Sequence[LookSummary]) -> TextTable:
    """A line per arm: how often it looked, with which tools, where, what this changed, and the
    tokens."""
    header = (
        "contestant",
        "task",
        "tools",
        "ended by",
        "n",
        "looks\nper sample",
        "not run",
        "IoU of zoom\nwith mark",
        "mark shown\n%",
        "first\nanswer %",
        "final\nanswer %",
        "no answer\nto right",
        "wrong\nto right",
        "right\nto wrong",
        "tokens\nper sample",
        "tokens per\ngained one",
    )
    rows = []
    for one in summaries:
        refused = sum(
            one.outcomes.get(name, 0) for name in ("refused", "failed", "repeated", "bound")
        )
        flips = (str(count) for count in (one.answered_right, one.to_right, one.to_wrong))
        numbers = (
            str(one.n),
            f"{one.looks:.2f}",
            str(refused or ""),
            "" if one.iou is None else f"{one.iou:.2f}",
            percent(one.covered),
            percent(one.first_accuracy),
            percent(one.final_accuracy),
            *flips,
            f"{one.tokens:,.0f}",
            "no gain" if one.tokens_per_gain is None else f"{one.tokens_per_gain:,.1f}",
        )
        rows.append((one.contestant, one.task, _counts(one.tools), _counts(one.ended_by), *numbers))
    return TextTable(header, rows, text_columns=4).without_empty().without_same("task")


def turn_count_table(summaries: Sequence[LookSummary]) -> TextTable:
    """Accuracy against episode length: a line per arm and number of turns with looks."""
    header = ("contestant", "task", "turns that looked", "n", "accuracy %", "tokens\nper sample")
    rows = [
        (
            summary.contestant,
            summary.task,
            str(each.turns),
            str(each.n),
            percent(each.accuracy),
            f"{each.tokens:,.0f}",
        )
        for summary in summaries
        for each in summary.by_turns
    ]
    return TextTable(header, rows, text_columns=2).without_same("task")


def _verdict_at(scores: PointScores, record: Record, row: SampleRow, place: int) -> Verdict | None:
    """The verdict if the reply to the call at this index had been the final answer."""
    if place >= len(record.calls) or scores.score is None:
        return None
    asked = replace(record, calls=record.calls[: place + 1], answer=None, reason="")
    return _right_or_wrong(scores.score(asked, row).verdict)


def _right_or_wrong(verdict: Verdict) -> Verdict | None:
    return verdict if verdict in (Verdict.RIGHT, Verdict.WRONG) else None


def _tokens(call: Mapping[str, Any]) -> int:
    usage = Reply.from_dict(call["reply"]).usage if call.get("reply") else None
    return usage.tokens_in + usage.tokens_out if usage else 0


def _summarize(
    scores: PointScores, records: Sequence[AgentRecord], baseline: PointScores | None
) -> LookSummary:
    first = fmean(record.verdicts[0] is Verdict.RIGHT for record in records)
    final, tokens = (
        fmean(record.score for record in records),
        fmean(record.tokens for record in records),
    )
    looks = [look for record in records for look in record.looks]
    overlaps = [pair for record in records for pair in record.overlaps]
    spent, gained = tokens - fmean(record.first_tokens for record in records), final - first
    if baseline is not None:
        spent, gained = _spent_and_gained(scores, baseline)
    return LookSummary(
        contestant=scores.contestant,
        task=scores.task,
        n=len(records),
        looks=len(looks) / len(records),
        tools=Counter(look.tool or "(none)" for look in looks),
        outcomes=Counter(look.outcome for look in looks),
        ended_by=Counter(record.end.by for record in records),
        iou=fmean(iou for iou, _ in overlaps) if overlaps else None,
        covered=fmean(share for _, share in overlaps) if overlaps else None,
        first_accuracy=first,
        final_accuracy=final,
        answered_right=sum(record.flips(None, Verdict.RIGHT) for record in records),
        to_right=sum(record.flips(Verdict.WRONG, Verdict.RIGHT) for record in records),
        to_wrong=sum(record.flips(Verdict.RIGHT, Verdict.WRONG) for record in records),
        tokens=tokens,
        tokens_per_gain=spent / (100 * gained) if gained > 0 else None,
        compared_with=baseline.contestant if baseline is not None else "its first answer",
        by_turns=tuple(_by_turns(records)),
    )


def _by_turns(records: Sequence[AgentRecord]) -> Iterator[TurnCount]:
    groups: dict[int, list[AgentRecord]] = defaultdict(list)
    for record in records:
        groups[record.end.steps].append(record)
    for turns, same_length in sorted(groups.items()):
        accuracy = fmean(record.score for record in same_length)
        yield TurnCount(
            turns, len(same_length), accuracy, fmean(record.tokens for record in same_length)
        )


def _spent_and_gained(scores: PointScores, baseline: PointScores) -> tuple[float, float]:
    """Additional tokens per sample and additional accuracy over the baseline, on the samples that
    both answered."""
    both = [
        name for name in scores.samples if scores.scored.get(name) and baseline.scored.get(name)
    ]
    if not both:
        return 0.0, 0.0
    mine, others = (
        [each for name in both for each in side.scored[name].values()]
        for side in (scores, baseline)
    )
    spent, cheaper = (
        fmean(each.tokens_in + each.tokens_out for each in side) for side in (mine, others)
    )
    return spent - cheaper, fmean(each.score.value for each in mine) - fmean(
        each.score.value for each in others
    )


def _targets(record: Record, row: SampleRow) -> list[Mark]:
    """The relevant region: the one that the sample's meta field names, otherwise all its boxes and
    masks."""
    from looktwice.prompting.controls import OracleCrop  # opens all that draws

    plain = record.marks if record.marks is not None else row.sample["marks"]
    marks = [mark_from_dict(mark) for mark in plain]
    hint = row.meta.get(OracleCrop.hint)
    if isinstance(hint, str) and hint:
        return [mark for mark in marks if mark.label == hint and isinstance(mark, Box | Mask)]
    if isinstance(hint, list | tuple) and len(hint) == 4:
        x0, y0, x1, y1 = (float(edge) for edge in hint)
        return [Box(OracleCrop.hint, x0, y0, x1, y1)]
    if isinstance(hint, Mapping):
        return [mark_from_dict(hint)]
    return [mark for mark in marks if isinstance(mark, Box | Mask)]


def _overlaps(looks: Sequence[Look], targets: Sequence[Mark]) -> Iterator[tuple[float, float]]:
    """For each region that a look showed for the first time: the overlap with the best target in
    its image."""
    boxes = [
        (target.image, bounding_box(target)) for target in targets if isinstance(target, Box | Mask)
    ]
    for region in (region for look in looks for region in look.regions if region):
        image, x0, y0, x1, y1 = region
        rated = [_fit((x0, y0, x1, y1), target) for number, target in boxes if number == image]
        if boxes:
            yield max(rated, default=(0.0, 0.0))


def _fit(shown: Rect, target: Rect) -> tuple[float, float]:
    """Intersection over union of two boxes, and the share of the second that the first covers."""
    left, top, right, bottom = target
    return iou(shown, target), overlap(shown, target) / ((right - left) * (bottom - top))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{name} {count}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1])
    )
