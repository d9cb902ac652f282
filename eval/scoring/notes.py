"""What a table of a run says beside its figures: what they compare with, what was not asked, what
it leaves out."""

from __future__ import annotations

from collections.abc import Iterable

from looktwice.eval.records.unchanged import SentByArm, listed, say_unchanged
from looktwice.eval.scoring.labels import baselines, contestant_changes
from looktwice.eval.scoring.score import price_lines
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict, commonest_failure
from looktwice.pipelines.counted import counted


def notes(run: RunScores) -> list[str]:
    """A sentence each: the baseline, prices; samples without a record, failures, tasks in part;
    what is older."""
    prices = price_lines(scores.point for scores in run.points)
    left_out = [*_unfinished(run), *_failures(run), *_parts(run), *_older(run)]
    return [*_warnings(run), *_compared(run), *prices, *left_out]


def _warnings(run: RunScores) -> list[str]:
    """What the tasks' own notes warn of, such as a metric of the benchmark that these files do not
    allow."""
    notes = {
        (scores.task, part)
        for scores in run.points
        for part in str(scores.point.facts.get("note")).split("; ")
    }
    return [f"{part} ({task})" for task, part in sorted(notes) if part.startswith("warning: ")]


def unchanged(run: RunScores) -> list[str]:
    """Which stages changed no request, or few, by the first draw of every sample; what explains a
    delta of zero."""
    rivals = baselines(run)
    arms = []
    for scores in run.points:
        if scores.older or scores.point.replies_of:  # another reader is no stage
            continue
        first = {name: draw for name in scores.scored if (draw := scores.first(name))}
        rival = rivals[scores.point.id]
        arms.append(
            SentByArm(
                scores.point,
                scores.contestant,
                scores.task,
                {name: draw.request for name, draw in first.items()},
                {name: draw.kept for name, draw in first.items() if draw.kept},
                rival.point.id if rival else "",
            )
        )
    return say_unchanged(arms)


def _compared(run: RunScores) -> list[str]:
    """What delta compares with: one arm, or each arm with that of the same setting."""
    rivals = baselines(run)
    pairs = [
        (scores, rival) for scores in run.points if (rival := rivals[scores.point.id]) is not None
    ]
    if len({rival.contestant for _, rival in pairs}) < 2:
        first = (
            " (first contestant)"
            if pairs and pairs[0][1].contestant == run.points[0].point.contestant
            else ""
        )
        return [f"delta: against {rival.contestant}{first}" for _, rival in pairs[:1]]
    others = [
        (scores, rival)
        for scores, rival in pairs
        if scores.point.contestant != rival.point.contestant
    ]
    own = [rival for scores, rival in pairs if scores.point.contestant == rival.point.contestant]
    alike = [rival for scores, rival in others if _is_same_setting(scores, rival)]
    rest = [rival for scores, rival in others if not _is_same_setting(scores, rival)]
    parts = [f"against {alike[0].point.contestant} at the same setting"] if alike else []
    parts += [f"{'where it has none, ' if alike else ''}against {_names(rest)}"] if rest else []
    parts += [f"its own arms against {_names(own)}"] if own else []
    return [f"delta: {'; '.join(parts)}"]


def _is_same_setting(scores: PointScores, rival: PointScores) -> bool:
    return contestant_changes(scores.point) == contestant_changes(rival.point)


def _names(arms: Iterable[PointScores]) -> str:
    names = list(dict.fromkeys(arm.contestant for arm in arms))
    return names[0] if len(names) == 1 else f"the nearest in setting of {listed(names)}"


def _unfinished(run: RunScores) -> list[str]:
    asked = [scores for scores in run.points if not scores.point.replies_of]
    missing = sum(scores.missing for scores in asked)
    planned = missing + sum(len(scores.all) for scores in asked)
    if not missing:
        return []
    are = "is" if missing == 1 else "are"
    return [
        f"unfinished: {missing} of {counted(planned, 'planned answer')} {are} missing, and in no"
        " mean; the same command goes on"
    ]


def _failures(run: RunScores) -> list[str]:
    """Of samples and of readers, with what they mostly say: a fault in a reader of one's own fails
    every answer."""
    failed = [
        entry for scores in run.points for entry in scores.all if entry.verdict is Verdict.FAILED
    ]
    if not failed:
        return []
    often = "with" if len(failed) == 1 else "most often with"
    return [
        f"failed: {counted(len(failed), 'answer')}, {often}"
        f" {commonest_failure([e.detail for e in failed])}"
    ]


def _parts(run: RunScores) -> list[str]:
    """For every task of which a limit or a shard leaves samples out, and no earlier run has asked
    them."""
    whole, limit, limits, limited = (
        run.folder.facts.get("samples") or {},
        run.folder.facts.get("limit"),
        [],
        False,
    )
    tasks: dict[str, list[PointScores]] = {}
    for scores in run.points:
        if not scores.older:
            tasks.setdefault(scores.point.task_id, []).append(scores)
    for task, arms in tasks.items():
        planned = [len(arm.samples) if arm.planned is None else arm.planned for arm in arms]
        asked = [
            max(n, sum(map(bool, arm.scored.values())))
            for n, arm in zip(planned, arms, strict=True)
        ]
        few, most = min(asked), max(asked)
        if few < whole.get(task, few):
            limited = limited or few == limit
            numbers = str(few) if few == most else f"{few} to {most}"
            limits.append(f"{arms[0].task}: {numbers} of {counted(whole[task], 'sample')}")
    return (
        [f"asked in part{f' (limit {limit})' if limited else ''}: {', '.join(limits)}"]
        if limits
        else []
    )


def _older(run: RunScores) -> list[str]:
    arms = (
        "1 arm of an earlier plan"
        if len(run.older) == 1
        else f"{len(run.older)} arms of earlier plans"
    )
    left_out = [f"{arms}, {listed(run.older)}"] if run.older else []
    left_out += (
        [f"{counted(run.older_draws, 'answer')} of an earlier plan with more draws"]
        if run.older_draws
        else []
    )
    if not left_out:
        return []
    return [
        f"not shown: {'; '.join(left_out)}; `--all` (in Python `all_arms=True`) shows what is"
        " left out"
    ]
