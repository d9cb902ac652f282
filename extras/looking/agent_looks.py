"""An analysis of the tool calls ("looks") of agents: the tools, the regions, the effect on the
answer, and the cost.

Everything is computed from the records. The answer before a look is the one that the point's reader
finds in the reply that requested the look, or in the reply to the agent's probe; the answer after
the last look is the final one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from looktwice.eval.analysis.analyses import Analysis, make_table_builder
from looktwice.eval.display.table import cache_measure
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    attribute_columns,
    nonzero_cell,
    percent,
    text,
)
from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.scoring.labels import find_baselines
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.pipelines.geometry import iou, measure_overlap
from looktwice.pipelines.marks import Box, Mark, Mask, bounding_box, mark_from_dict
from looktwice.pipelines.model import Reply
from looktwice.prompting.agent.looks import EpisodeEnd, Look, read_episode_end, read_looks

Overlap = tuple[float, float]
"""Intersection over union of a zoom and a region, and the share of the region that the zoom
shows."""
Changes = Counter[tuple[Verdict | None, Verdict | None]]
"""Counts of looks by the verdict before and the verdict after the look."""


@dataclass(frozen=True)
class AgentRecord:
    """One record of an agent: its looks, the `end` of the episode, and the verdicts on its answer
    before each turn with looks and at the end.

    A verdict is None if the reply contained no answer. `overlaps` holds, for each region that a
    look showed for the first time, the intersection over union with the marked region and the share
    of the marked region that is shown. `first_tokens` is the number of tokens up to the first
    answer.
    """

    looks: tuple[Look, ...]
    end: EpisodeEnd
    verdicts: tuple[Verdict | None, ...]
    score: float
    tokens: int
    first_tokens: int
    overlaps: tuple[Overlap, ...]

    @property
    def changes(self) -> Changes:
        """Counts of looks by the verdict before and after; a look without a new answer keeps the
        old verdict."""
        carried: list[Verdict | None] = []
        for verdict in self.verdicts:
            carried.append(verdict or (carried[-1] if carried else None))
        return Counter(pairwise(carried))


@dataclass(frozen=True)
class TurnCount:
    """The records of all episodes of one length: `turn_count` is the number of replies with tool
    calls, `n` the number of records."""

    turn_count: int
    n: int
    accuracy: float
    tokens: float


@dataclass(frozen=True)
class LookSummary:
    """The looks of one arm. Rates and means are over the arm's records; shares lie in 0..1, and are
    None if there is no data.

    `iou` and `covered_share` are means over the overlaps of all records. `answered_right` counts
    the looks that turned no answer into a right one, `turned_right` those that turned a wrong
    answer into a right one, and `turned_wrong` the reverse. `tokens_per_gain` is the number of
    additional tokens per sample for each percentage point gained over the baseline, or over the
    first answer if there is no baseline.
    """

    contestant: str
    task: str
    n: int
    looks: float
    tools: Counter[str]
    outcomes: Counter[str]
    ended_by: Counter[str]
    iou: float | None
    covered_share: float | None
    first_accuracy: float
    final_accuracy: float
    answered_right: int
    turned_right: int
    turned_wrong: int
    tokens: float
    tokens_per_gain: float | None
    by_turns: tuple[TurnCount, ...]


@cache_measure
def summarize_looks(run: RunScores) -> list[LookSummary]:
    """Summarize the looks of every arm of a run that has an agent."""
    episodes = defaultdict[str, list[AgentRecord]](list)
    for scores, record in run.records(holding='"ended {'):  # the last note of an agent
        if (episode := make_agent_record(scores, record)) is not None:
            episodes[scores.point.id].append(episode)
    compared = find_baselines(run)
    return [
        _summarize(scores, episodes[name], compared[name])
        for name, scores in run.by_id.items()
        if name in episodes
    ]


def make_agent_record(scores: PointScores, record: Record) -> AgentRecord | None:
    """Convert a record in which an agent finished its episode; return None for any other record."""
    end, row = read_episode_end(record.notes), scores.samples.get(record.sample)
    final = scores.result_of(record)
    if end is None or final is None or row is None:
        return None
    looks, asked = tuple(read_looks(record.notes)), dict[int, int]()
    for look in looks:
        asked.setdefault(look.call, look.call if look.probe is None else look.probe)
    verdicts, tokens = [], []
    for place in asked.values():  # the verdict if this reply had been the final answer
        cut = replace(record, calls=record.calls[: place + 1], answer=None, reason="")
        is_there = place < len(record.calls)
        verdicts.append(scores.score(cut, row).verdict if scores.score and is_there else None)
    for call in record.calls:
        usage = Reply.from_dict(call["reply"]).usage if call.get("reply") else None
        tokens.append(usage.tokens_in + usage.tokens_out if usage else 0)
    first_tokens = sum(tokens[: 1 + next(iter(asked.values()), len(tokens))])
    read = (v if v in (Verdict.RIGHT, Verdict.WRONG) else None for v in (*verdicts, final.verdict))
    overlaps = tuple(_measure_overlaps(looks, _find_targets(record, row)))
    value = final.score.value
    return AgentRecord(looks, end, tuple(read), value, sum(tokens), first_tokens, overlaps)


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


NOT_RUN_OUTCOMES = ("refused", "failed", "repeated", "bound")
LOOK_COLUMNS: Columns[LookSummary] = (
    *attribute_columns("contestant", "task"),
    Column("tools", lambda arm: _format_counts(arm.tools), text),
    Column("ended by", lambda arm: _format_counts(arm.ended_by), text),
    Column("n", "n"),
    Column("looks\nper sample", "looks", "{:.2f}"),
    Column(
        "not run", lambda arm: sum(map(arm.outcomes.__getitem__, NOT_RUN_OUTCOMES)), nonzero_cell
    ),
    Column("IoU of zoom\nwith mark", "iou", "{:.2f}"),
    Column("mark shown\n%", "covered_share", percent),
    Column("first\nanswer %", "first_accuracy", percent),
    Column("final\nanswer %", "final_accuracy", percent),
    Column("no answer\nto right", "answered_right"),
    Column("wrong\nto right", "turned_right"),
    Column("right\nto wrong", "turned_wrong"),
    Column("tokens\nper sample", "tokens", "{:,.0f}"),
    Column(
        "tokens per\npoint gained",
        lambda arm: "no gain" if arm.tokens_per_gain is None else f"{arm.tokens_per_gain:,.1f}",
    ),
)


class TurnLine(NamedTuple):
    """A line of the table of accuracy by episode length: an arm, and its records with one number of
    turns."""

    arm: LookSummary
    turn: TurnCount


TURN_COUNT_COLUMNS: Columns[TurnLine] = (
    *attribute_columns("contestant", "task", of="arm"),
    Column("turns\nwith looks", "turn.turn_count"),
    Column("n", "turn.n"),
    Column("accuracy %", "turn.accuracy", percent),
    Column("tokens\nper sample", "turn.tokens", "{:,.0f}"),
)


def list_turn_counts(run: RunScores) -> list[TurnLine]:
    """Return a line for each arm and number of turns with looks."""
    return [TurnLine(arm, turn) for arm in summarize_looks(run) for turn in arm.by_turns]


def _count_turns(records: Sequence[AgentRecord], turns: int) -> TurnCount:
    accuracy = fmean(record.score for record in records)
    return TurnCount(turns, len(records), accuracy, fmean(record.tokens for record in records))


def _summarize(
    scores: PointScores, records: Sequence[AgentRecord], baseline: PointScores | None
) -> LookSummary:
    first = fmean(record.verdicts[0] is Verdict.RIGHT for record in records)
    whole, changes = _count_turns(records, 0), Changes()
    looks, overlaps = list[Look](), list[Overlap]()
    lengths = defaultdict[int, list[AgentRecord]](list)
    for record in records:
        lengths[record.end.steps].append(record)
        looks += record.looks
        overlaps += record.overlaps
        changes += record.changes
    iou, covered = map(fmean, zip(*overlaps, strict=True)) if overlaps else (None, None)
    spent = whole.tokens - fmean(record.first_tokens for record in records)
    gained = whole.accuracy - first
    if baseline is not None:
        spent, gained = _compare_cost_and_accuracy(scores, baseline)
    return LookSummary(
        contestant=scores.contestant,
        task=scores.task,
        n=len(records),
        looks=len(looks) / len(records),
        tools=Counter(look.tool or "(none)" for look in looks),
        outcomes=Counter(look.outcome for look in looks),
        ended_by=Counter(record.end.by for record in records),
        iou=iou,
        covered_share=covered,
        first_accuracy=first,
        final_accuracy=whole.accuracy,
        answered_right=changes[None, Verdict.RIGHT],
        turned_right=changes[Verdict.WRONG, Verdict.RIGHT],
        turned_wrong=changes[Verdict.RIGHT, Verdict.WRONG],
        tokens=whole.tokens,
        tokens_per_gain=spent / (100 * gained) if gained > 0 else None,
        by_turns=tuple(_count_turns(lengths[turns], turns) for turns in sorted(lengths)),
    )


def _compare_cost_and_accuracy(scores: PointScores, baseline: PointScores) -> tuple[float, float]:
    """Return the amounts by which an arm exceeds its baseline in tokens per sample and in accuracy,
    on the samples that both answered."""
    both = [n for n in scores.samples if scores.scored.get(n) and baseline.scored.get(n)]
    means = []
    for arm in (scores, baseline) if both else ():
        values = [
            (entry.tokens_in + entry.tokens_out, entry.score.value)
            for name in both
            for entry in arm.scored[name].values()
        ]
        means.append([*map(fmean, zip(*values, strict=True))])
    return (means[0][0] - means[1][0], means[0][1] - means[1][1]) if means else (0.0, 0.0)


def _find_targets(record: Record, row: SampleRow) -> list[Mark]:
    """Return the relevant regions: the target that the sample's `meta` names, otherwise all its
    boxes and masks."""
    from looktwice.prompting.controls import OracleCrop  # imports all drawing code

    hint = row.meta.get(OracleCrop.hint)
    if isinstance(hint, list | tuple) and len(hint) == 4:
        x0, y0, x1, y1 = map(float, hint)
        return [Box(OracleCrop.hint, x0, y0, x1, y1)]
    if isinstance(hint, Mapping):
        return [mark_from_dict(hint)]
    label = hint if isinstance(hint, str) else ""
    plain = record.marks if record.marks is not None else row.sample["marks"]
    marks = map(mark_from_dict, plain)
    return [m for m in marks if isinstance(m, Box | Mask) and label in ("", m.label)]


def _measure_overlaps(looks: Sequence[Look], targets: Sequence[Mark]) -> Iterator[Overlap]:
    """Yield, for each region that a look showed for the first time, the best intersection over
    union with a target in the same image, and the share of this target that the region covers."""
    boxes = [(mark.image, bounding_box(mark)) for mark in targets if isinstance(mark, Box | Mask)]
    for image, *edges in (region for look in looks for region in look.regions if region):
        x0, y0, x1, y1 = edges
        best = (0.0, 0.0)
        for number, target in boxes:
            left, top, right, bottom = target
            if number == image:
                shown = measure_overlap((x0, y0, x1, y1), target) / (
                    (right - left) * (bottom - top)
                )
                best = max(best, (iou((x0, y0, x1, y1), target), shown))
        if boxes:
            yield best


LOOKS_CHANGED_ANALYSIS = Analysis(
    "looks",
    "What an agent's looks changed",
    make_table_builder(LOOK_COLUMNS, summarize_looks, keep_empty=False, omit_constant="task"),
)
LOOK_TURNS_ANALYSIS = Analysis(
    "look_turns",
    "Accuracy by number of turns with looks",
    make_table_builder(TURN_COUNT_COLUMNS, list_turn_counts, omit_constant="task"),
    wrap=False,
)
