"""What an agent's looks were worth: which tools, where they looked, what they changed in the answer, and at what cost.

Everything is computed from the records. The answer before a look is what the point's reader finds in the reply that
asked for the look, or in the reply to the agent's probe; the answer after the last look is the final one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.records.records import Key, Record, SampleRow
from looktwice.eval.scoring.benchmark import build_scorer
from looktwice.eval.scoring.labels import baseline_of
from looktwice.eval.scoring.score import RecordScorer, configured_reader
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, Verdict
from looktwice.pipelines.geometry import Rect, iou, overlap
from looktwice.pipelines.marks import Box, Mark, Mask, bounding_box, mark_from_dict
from looktwice.pipelines.model import Reply
from looktwice.pipelines.state import Stage
from looktwice.prompting.agent.record import EpisodeEnd, Look, read_end, read_looks
from looktwice.prompting.controls import OracleCrop

HINT = OracleCrop.hint
"""The field of a sample that names the region that matters."""


@dataclass(frozen=True)
class AgentRecord:
    """One record of an agent: its looks, why they ended, and the verdicts before each turn that looked and at the end.

    A verdict is None where the words gave no answer. `overlaps` are, for each zoom, the intersection over union with
    the marked region and the share of that region that it shows. `first` are the tokens up to the first answer.
    """

    looks: tuple[Look, ...]
    ended: EpisodeEnd
    verdicts: tuple[Verdict | None, ...]
    right: float
    tokens: int
    first: int
    overlaps: tuple[tuple[float, float], ...] = ()

    @property
    def known(self) -> list[Verdict | None]:
        """The verdicts, a turn without an answer keeping the one before."""
        kept: list[Verdict | None] = []
        for verdict in self.verdicts:
            kept.append(verdict or (kept[-1] if kept else None))
        return kept

    def flips(self, before: Verdict | None, after: Verdict) -> int:
        """How often the answer went from one verdict to another over a look."""
        known = self.known
        return sum((a, b) == (before, after) for a, b in pairwise(known))


@dataclass(frozen=True)
class TurnCount:
    """The records of one chain length, which is the number of replies that asked for tools."""

    looks: int
    n: int
    accuracy: float
    tokens: float


@dataclass(frozen=True)
class LookSummary:
    """The looks of one point. Rates and means are over its records; shares lie in 0..1, None where there is nothing.

    `iou` and `covered` are means over all zooms with a marked region. `before` and `after` are the accuracies of the
    first and the final answer; `found`, `to_right` and `to_wrong` count looks after which the answer was right where
    there was none, right where it was wrong, and wrong where it was right. `price` are the tokens per sample for each
    point of accuracy (a hundredth) gained over the baseline `against`, or, without one, over the first answer.
    """

    contestant: str
    task: str
    n: int
    looks: float
    tools: Mapping[str, int]
    outcomes: Mapping[str, int]
    ended: Mapping[str, int]
    iou: float | None
    covered: float | None
    before: float
    after: float
    found: int
    to_right: int
    to_wrong: int
    tokens: float
    price: float | None
    against: str
    lengths: tuple[TurnCount, ...] = field(default=(), repr=False)


def summarize_looks(run: RunScores, reader: Stage | None = None) -> list[LookSummary]:
    """The looks of every point of a run that has an agent; `reader` stands in for the configured one."""
    held: dict[str, dict[Key, Record]] = defaultdict(dict)
    for key, record in run.folder.records().items():
        held[record.point][key] = record
    points = {scores.point.id: scores for scores in run.points}
    found = []
    for scores in run.points:
        gone = list(agent_records(run, scores, list(held[scores.point.id].values()), reader))
        if gone:
            found.append(_summed(scores, gone, _rival(scores, points)))
    return found


def agent_records(
    run: RunScores, scores: PointScores, records: Sequence[Record], reader: Stage | None = None
) -> Iterator[AgentRecord]:
    """The records of a point that an agent brought to an end, one by one."""
    judge = RecordScorer(run.folder, reader or configured_reader(scores.point), build_scorer(scores.point.facts))
    for record in records:
        ended = read_end(record.notes)
        final = scores.scored.get(record.sample, {}).get(record.draw)
        if ended is not None and final is not None and record.sample in scores.samples:
            yield _chain(judge, record, scores.samples[record.sample], ended, final)


def look_table(found: Sequence[LookSummary]) -> TextTable:
    """A line per point: how often it looked, with what, where, what that changed, and the price."""
    header = (
        "contestant", "task", "tools", "ended by", "n", "looks\nper sample", "not run", "IoU of zoom\nwith mark",
        "mark shown\n%", "first\nanswer %", "final\nanswer %", "found\nby a look", "to right", "to wrong",
        "tokens\nper sample", "tokens per\ngained point",
    )  # fmt: skip
    rows = []
    for point in found:
        refused = sum(point.outcomes.get(name, 0) for name in ("refused", "failed", "repeated", "bound"))
        numbers = (
            str(point.n), f"{point.looks:.2f}", str(refused or ""), _number(point.iou, 2), _percent(point.covered),
            _percent(point.before), _percent(point.after), str(point.found), str(point.to_right), str(point.to_wrong),
            f"{point.tokens:,.0f}", "no gain" if point.price is None else f"{point.price:,.1f}",
        )  # fmt: skip
        rows.append((point.contestant, point.task, _counts(point.tools), _counts(point.ended), *numbers))
    grid = TextTable(header, tuple(rows), words=4).without_empty()
    return grid if len({point.task for point in found}) > 1 else grid.without(1)


def turn_count_table(found: Sequence[LookSummary]) -> TextTable:
    """Accuracy against the length of the chain: a line per point and number of turns that looked."""
    header = ("contestant", "task", "turns that looked", "n", "accuracy %", "tokens\nper sample")
    rows = [
        (point.contestant, point.task, str(each.looks), str(each.n), _percent(each.accuracy), f"{each.tokens:,.0f}")
        for point in found
        for each in point.lengths
    ]
    grid = TextTable(header, tuple(rows), words=2)
    return grid if len({point.task for point in found}) > 1 else grid.without(1)


def _chain(judge: RecordScorer, record: Record, row: SampleRow, ended: EpisodeEnd, final: ScoredRecord) -> AgentRecord:
    looks = tuple(read_looks(record.notes))
    asked: dict[int, int] = {}
    for look in looks:
        asked.setdefault(look.call, look.call if look.probe is None else look.probe)
    before = [_verdict(judge, record, row, place) for place in asked.values()]
    spent = [_tokens(call) for call in record.calls]
    first = sum(spent[: 1 + next(iter(asked.values()), len(spent))])
    verdicts = (*before, _plain(final.verdict))
    overlaps = tuple(_overlaps(looks, _targets(record, row)))
    return AgentRecord(looks, ended, verdicts, final.score.value, sum(spent), first, overlaps)


def _verdict(judge: RecordScorer, record: Record, row: SampleRow, place: int) -> Verdict | None:
    """What the reply at this place among the calls would have been worth as the final answer."""
    if place >= len(record.calls):
        return None
    asked = replace(record, calls=record.calls[: place + 1], answer=None, reason="")
    return _plain(judge(asked, row).verdict)


def _plain(verdict: Verdict) -> Verdict | None:
    return verdict if verdict in (Verdict.RIGHT, Verdict.WRONG) else None


def _tokens(call: Mapping[str, Any]) -> int:
    usage = Reply.from_dict(call["reply"]).usage if call.get("reply") else None
    return usage.tokens_in + usage.tokens_out if usage else 0


def _summed(scores: PointScores, found: Sequence[AgentRecord], rival: PointScores | None) -> LookSummary:
    before = _mean([float(chain.verdicts[0] is Verdict.RIGHT) for chain in found])
    after, tokens = _mean([chain.right for chain in found]), _mean([chain.tokens for chain in found])
    looks = [look for chain in found for look in chain.looks]
    overlaps = [pair for chain in found for pair in chain.overlaps]
    spent, gained = tokens - _mean([chain.first for chain in found]), after - before
    if rival is not None:
        spent, gained = _against(scores, rival)
    return LookSummary(
        contestant=scores.contestant,
        task=scores.task,
        n=len(found),
        looks=len(looks) / len(found),
        tools=Counter(look.tool or "(none)" for look in looks),
        outcomes=Counter(look.outcome for look in looks),
        ended=Counter(chain.ended.by for chain in found),
        iou=_mean([iou for iou, _ in overlaps]) if overlaps else None,
        covered=_mean([share for _, share in overlaps]) if overlaps else None,
        before=before,
        after=after,
        found=sum(chain.flips(None, Verdict.RIGHT) for chain in found),
        to_right=sum(chain.flips(Verdict.WRONG, Verdict.RIGHT) for chain in found),
        to_wrong=sum(chain.flips(Verdict.RIGHT, Verdict.WRONG) for chain in found),
        tokens=tokens,
        price=spent / (100 * gained) if gained > 0 else None,
        against=rival.contestant if rival is not None else "its first answer",
        lengths=tuple(_lengths(found)),
    )


def _lengths(found: Sequence[AgentRecord]) -> Iterator[TurnCount]:
    groups: dict[int, list[AgentRecord]] = defaultdict(list)
    for chain in found:
        groups[chain.ended.steps].append(chain)
    for looks, held in sorted(groups.items()):
        yield TurnCount(looks, len(held), _mean([c.right for c in held]), _mean([c.tokens for c in held]))


def _rival(scores: PointScores, points: Mapping[str, PointScores]) -> PointScores | None:
    rival = baseline_of(scores.point, [other.point for other in points.values()])
    return None if rival is None else points[rival.id]


def _against(scores: PointScores, rival: PointScores) -> tuple[float, float]:
    """Tokens more per sample, and accuracy more, than the baseline on the samples that both answered."""
    both = [name for name in scores.samples if scores.scored.get(name) and rival.scored.get(name)]
    mine, theirs = ([one for name in both for one in p.scored[name].values()] for p in (scores, rival))
    if not both:
        return 0.0, 0.0
    spent = _mean([s.tokens_in + s.tokens_out for s in mine]) - _mean([s.tokens_in + s.tokens_out for s in theirs])
    return spent, _mean([s.score.value for s in mine]) - _mean([s.score.value for s in theirs])


def _targets(record: Record, row: SampleRow) -> list[Mark]:
    """The marked region: what the sample's own field names, or else all its boxes and masks."""
    plain = record.marks if record.marks is not None else row.sample["marks"]
    marks = [mark_from_dict(mark) for mark in plain]
    hint = row.meta.get(HINT)
    if isinstance(hint, str) and hint:
        return [mark for mark in marks if mark.label == hint and isinstance(mark, Box | Mask)]
    if isinstance(hint, list | tuple) and len(hint) == 4:
        x0, y0, x1, y1 = (float(edge) for edge in hint)
        return [Box(HINT, x0, y0, x1, y1)]
    if isinstance(hint, Mapping):
        return [mark_from_dict(hint)]
    return [mark for mark in marks if isinstance(mark, Box | Mask)]


def _overlaps(looks: Sequence[Look], targets: Sequence[Mark]) -> Iterator[tuple[float, float]]:
    """For each region that a look was the first to show: the best of the targets in its image."""
    boxes = [(target.image, bounding_box(target)) for target in targets if isinstance(target, Box | Mask)]
    for region in (region for look in looks for region in look.regions if region):
        image, x0, y0, x1, y1 = region
        rated = [_fit((x0, y0, x1, y1), target) for number, target in boxes if number == image]
        if boxes:
            yield max(rated, default=(0.0, 0.0))


def _fit(shown: Rect, target: Rect) -> tuple[float, float]:
    """Intersection over union of two boxes, and the share of the second that the first shows."""
    left, top, right, bottom = target
    return iou(shown, target), overlap(shown, target) / ((right - left) * (bottom - top))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"
