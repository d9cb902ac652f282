"""What a table of a run says beside its figures: what was not asked, and which arms of earlier plans it leaves out."""

from __future__ import annotations

from collections import Counter

from looktwice.eval.scoring.verdict import RunScores, Verdict

SHOWN = 3  # older arms that are named


def notes(run: RunScores) -> list[str]:
    """A sentence each for planned samples without a record, failures, tasks asked in part by plan, and older arms."""
    return [*_unfinished(run), *_failures(run), *_parts(run), *_older(run)]


def _unfinished(run: RunScores) -> list[str]:
    asked = [scores for scores in run.points if not scores.point.replies_of]
    missing = sum(scores.missing for scores in asked)
    planned = missing + sum(len(scores.all) for scores in asked)
    if not missing:
        return []
    return [f"unfinished: {missing} of {planned} planned answers are missing, and in no mean; the same command goes on"]


def _failures(run: RunScores) -> list[str]:
    """Of samples and of readers, with what they mostly say: a fault in a reader of one's own fails every answer."""
    failed = [entry for scores in run.points for entry in scores.all if entry.verdict is Verdict.FAILED]
    if not failed:
        return []
    ((most, _),) = Counter((entry.detail.strip().splitlines() or ["no message"])[0] for entry in failed).most_common(1)
    return [f"failed: {len(failed)} answers, most often with {most[:160]}"]


def _parts(run: RunScores) -> list[str]:
    """For every task of which a limit or a shard leaves samples out."""
    facts = run.folder.facts
    whole = facts.get("samples") or {}
    tasks = {scores.point.task_id: scores for scores in run.points}
    parts = {task: scores.planned or len(scores.samples) for task, scores in tasks.items()}
    found = [f"{tasks[task].task}: {n} of {whole[task]} samples" for task, n in parts.items() if n < whole.get(task, n)]
    limit = f" (limit {facts['limit']})" if facts.get("limit") else ""
    return [f"asked in part{limit}: {', '.join(found)}"] if found else []


def _older(run: RunScores) -> list[str]:
    if not run.older:
        return []
    named = ", ".join(run.older[:SHOWN]) + (f" and {len(run.older) - SHOWN} more" if len(run.older) > SHOWN else "")
    arms = "1 arm of an earlier plan" if len(run.older) == 1 else f"{len(run.older)} arms of earlier plans"
    return [f"not shown: {arms}, {named}; `--all` (in Python `all_arms=True`) shows what is left out"]
