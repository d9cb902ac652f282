"""Summaries of judges: the number of judged replies, their cost, and the judges' agreement."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter
from statistics import fmean

from looktwice.eval.analysis.analyses import Analysis
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    attribute_columns,
    table,
    text,
)
from looktwice.eval.records.judgements import Judgement
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.statistics.answers import cohens_kappa
from looktwice.pipelines.counted import format_count

MODERATE_KAPPA = 0.41
"""The kappa from which agreement is at least moderate (Landis and Koch 1977)."""


@dataclass(frozen=True)
class JudgedArm:
    """The judgements of one judge in one pass on the replies of one arm; tokens are those of the
    judge's calls, not of the contestant's."""

    judge: str
    kind: str
    contestant: str
    task: str
    lines: Sequence[Judgement]

    @property
    def paid_calls(self) -> list[Judgement]:
        """The judgements that called a server."""
        return [line for line in self.lines if not line.cached and not line.error]

    def count(self, field: str) -> int:
        """Count the judgements in which this field is not empty."""
        return sum(bool(getattr(line, field)) for line in self.lines)

    def sum_tokens(self, field: str) -> int:
        """Sum `tokens_in` or `tokens_out` over the paid calls."""
        return sum(getattr(line, field) for line in self.paid_calls)


def describe_judgements(lines: Sequence[Judgement], judge: str) -> Iterator[str]:
    """Yield a line per pass of one judge: the number of replies judged, the reasons for replies not
    judged, calls and tokens."""
    by_kind = defaultdict[str, list[Judgement]](list)
    for line in lines:
        if line.judge == judge:
            by_kind[line.kind].append(line)
    for kind, judgements in by_kind.items():
        arm = JudgedArm(judge, kind, "", "", judgements)
        judged = format_count(len(arm.lines), "reply", "replies")
        parts = [f"{arm.count('has_verdict')} of {judged} judged"]
        if none := arm.count("none"):
            parts[0] += f", {none} of which choose no answer"
        reasons = Counter(line.reason for line in arm.lines if line.reason)
        for reason, count in reasons.most_common(3):
            parts.append(f"{count} without a verdict ({reason})")
        errors = list(filter(None, map(attrgetter("error"), arm.lines)))
        if errors:
            parts.append(f"{len(errors)} failed, such as: {errors[0]}")
        cached = len(arm.lines) - len(errors) - len(arm.paid_calls)
        parts.append(
            f"{format_count(len(arm.paid_calls), 'call')} and {cached} from the cache,"
            f" {arm.sum_tokens('tokens_in')} tokens in, {arm.sum_tokens('tokens_out')} out"
        )
        yield f"judge {judge}, {kind}: {'; '.join(parts)}"


def describe_agreement(lines: Sequence[Judgement]) -> Iterator[str]:
    """Yield, for each pass and pair of judges, their agreement on the replies that both judged,
    with Cohen's kappa.

    For scores by criterion, their mean absolute difference replaces kappa.
    """
    by_pass = dict[str, dict[str, dict[tuple[object, ...], Judgement]]]()
    for line in lines:
        if line.has_verdict:
            reply = line.point, line.sample, line.draw, line.words
            by_pass.setdefault(line.kind, {}).setdefault(line.judge, {})[reply] = line
    for kind, judges in by_pass.items():
        for first, second in combinations(judges, 2):
            mine, theirs = judges[first], judges[second]
            pairs = [(mine[reply], theirs[reply]) for reply in mine if reply in theirs]
            if pairs:
                yield f"agreement on {kind}, {first} and {second}: {_describe_agreement(pairs)}"


def _describe_agreement(pairs: Sequence[tuple[Judgement, Judgement]]) -> str:
    mine, theirs = ([line.verdict for line in lines] for lines in zip(*pairs, strict=True))
    same = sum(map(str.__eq__, mine, theirs))
    share = f"{same} of {len(pairs)} the same ({100 * same / len(pairs):.1f} %)"
    distances = list[float]()
    for first, second in pairs:
        for name in first.scores.keys() & second.scores.keys():
            distances.append(abs(first.scores[name] - second.scores[name]))
    if distances:
        return f"{share}, scores {fmean(distances):.3f} apart on average"
    kappa = cohens_kappa(mine, theirs).value
    doubt = (
        "; one of them misreads replies: let people check some with `looktwice annotate RUN --ask"
        " replies`"
    )
    return f"{share}, kappa {kappa:.3f}{doubt if kappa < MODERATE_KAPPA else ''}"


def judge_table(runs: Sequence[RunScores]) -> TextTable:
    """Build a table with a line per judge, pass, contestant and task."""
    arms = []
    for run in runs:
        labels = {scores.point.id: (scores.contestant, scores.task) for scores in run.points}
        by_arm = defaultdict[tuple[str, str, str], list[Judgement]](list)
        for line in run.judged.lines:
            by_arm[line.judge, line.kind, line.point].append(line)
        for (judge, kind, point), lines in by_arm.items():
            label = f"{judge} (counts)" if judge == run.judged.counting_judges.get(kind) else judge
            arms.append(JudgedArm(label, kind, *labels.get(point, (point, "")), lines))
    columns: Columns[JudgedArm] = (
        *attribute_columns("judge"),
        Column("pass", "kind", text),
        *attribute_columns("contestant", "task"),
        Column("judged", lambda arm: arm.count("has_verdict")),
        Column("chose\nnothing", lambda arm: arm.count("none")),
        Column("no\nverdict", lambda arm: arm.count("reason")),
        Column("failed", lambda arm: arm.count("error")),
        Column("calls", lambda arm: len(arm.paid_calls)),
        Column("from\ncache", lambda arm: arm.count("cached")),
        Column("tokens in", lambda arm: arm.sum_tokens("tokens_in")),
        Column("tokens out", lambda arm: arm.sum_tokens("tokens_out")),
    )
    return table(columns, arms)


JUDGES_ANALYSIS = Analysis(
    "judges", "Verdicts of judges", lambda scored: judge_table(scored.scores)
)
