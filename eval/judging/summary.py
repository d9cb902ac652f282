"""How many replies each judge judged, at what cost, and how far two judges agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.records.judgements import Judgement
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.answers import cohens_kappa
from looktwice.pipelines.counted import counted


def summary(lines: Sequence[Judgement], judge: str) -> Iterator[str]:
    """A line per pass of one judge: how many it judged, why it did not, its calls and its
    tokens."""
    mine = [line for line in lines if line.judge == judge]
    for kind in dict.fromkeys(line.kind for line in mine):
        judged = [line for line in mine if line.kind == kind]
        given = sum(line.given for line in judged)
        none = sum(line.none for line in judged)
        parts = [
            f"{given} of {counted(len(judged), 'reply', 'replies')} judged"
            + (f", {none} of them to choose nothing" if none else "")
        ]
        why = Counter(line.reason for line in judged if line.reason)
        parts += [f"{count} without a verdict ({reason})" for reason, count in why.most_common(3)]
        failed = sum(bool(line.error) for line in judged)
        parts += (
            [f"{failed} failed, such as: {next(line.error for line in judged if line.error)}"]
            if failed
            else []
        )
        calls = [line for line in judged if not line.error]
        paid = [line for line in calls if not line.cached]
        tokens = (
            f"{sum(line.tokens_in for line in paid)} tokens in,"
            f" {sum(line.tokens_out for line in paid)} out"
        )
        parts.append(
            f"{counted(len(paid), 'call')} and {len(calls) - len(paid)} from the cache, {tokens}"
        )
        yield f"judge {judge}, {kind}: {'; '.join(parts)}"


def agreement(lines: Sequence[Judgement]) -> Iterator[str]:
    """For each pass and pair of judges: on how many of the replies that both judged they agree,
    with Cohen's kappa.

    For scores by criterion, their mean absolute difference instead.
    """
    by_pass: dict[str, dict[str, dict[tuple[object, ...], Judgement]]] = {}
    for line in lines:
        if line.given:
            reply = line.point, line.sample, line.draw, line.words
            by_pass.setdefault(line.kind, {}).setdefault(line.judge, {})[reply] = line
    for kind, judges in by_pass.items():
        for one, other in combinations(judges, 2):
            pairs = [
                (judges[one][reply], judges[other][reply])
                for reply in judges[one]
                if reply in judges[other]
            ]
            if pairs:
                yield f"agreement on {kind}, {one} and {other}: {_describe_agreement(pairs)}"


def _describe_agreement(pairs: Sequence[tuple[Judgement, Judgement]]) -> str:
    same = sum(a.verdict == b.verdict for a, b in pairs)
    text = f"{same} of {len(pairs)} the same ({100 * same / len(pairs):.1f} %)"
    distances = [
        abs(a.scores[name] - b.scores[name])
        for a, b in pairs
        for name in a.scores
        if name in b.scores
    ]
    if distances:
        return f"{text}, marks {fmean(distances):.3f} apart on average"
    kappa = cohens_kappa([a.verdict for a, _ in pairs], [b.verdict for _, b in pairs])
    return f"{text}, kappa {kappa.value:.3f}"


def judge_table(runs: Sequence[RunScores]) -> TextTable:
    """A line per judge, pass, contestant and task; tokens are those of the judge's calls, not of
    the contestants'."""
    header = (
        "judge",
        "pass",
        "contestant",
        "task",
        "judged",
        "chose\nnothing",
        "no\nverdict",
        "failed",
        "calls",
        "from\ncache",
        "tokens in",
        "tokens out",
    )
    rows: list[tuple[str, ...]] = []
    for run in runs:
        names: Mapping[str, PointScores] = {s.point.id: s for s in run.points}
        by_arm: dict[tuple[str, str, str], list[Judgement]] = {}
        for line in run.judged.lines:
            by_arm.setdefault((line.judge, line.kind, line.point), []).append(line)
        for (judge, kind, point), lines in by_arm.items():
            judge_label = f"{judge} (counts)" if judge == run.judged.counts else judge
            where = (names[point].contestant, names[point].task) if point in names else (point, "")
            rows.append((judge_label, kind, *where, *_counts(lines)))
    return TextTable(header, rows, text_columns=4)


def _counts(lines: Sequence[Judgement]) -> tuple[str, ...]:
    paid = [line for line in lines if not line.cached and not line.error]
    counts = (
        sum(line.given for line in lines),
        sum(line.none for line in lines),
        sum(bool(line.reason) for line in lines),
        sum(bool(line.error) for line in lines),
        len(paid),
        sum(line.cached for line in lines),
        sum(line.tokens_in for line in paid),
        sum(line.tokens_out for line in paid),
    )
    return tuple(str(count) for count in counts)
