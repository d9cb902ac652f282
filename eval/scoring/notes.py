"""What a table of a run says beside its figures: what was not asked, and which arms of earlier plans it leaves out."""

from __future__ import annotations

from looktwice.eval.scoring.verdict import RunScores

SHOWN = 3  # older arms that are named


def notes(run: RunScores) -> list[str]:
    """A sentence for planned samples without a record, one for tasks asked in part by plan, and one for older arms."""
    return [*_unfinished(run), *_parts(run), *_older(run)]


def _unfinished(run: RunScores) -> list[str]:
    asked = [scores for scores in run.points if not scores.point.replies_of]
    missing = sum(scores.missing for scores in asked)
    planned = missing + sum(len(scores.all) for scores in asked)
    if not missing:
        return []
    return [f"unfinished: {missing} of {planned} planned answers are missing, and in no mean; the same command goes on"]


def _parts(run: RunScores) -> list[str]:
    """For every task of which a limit or a shard leaves samples out."""
    facts = run.folder.facts
    whole = facts.get("samples") or {}
    tasks = {scores.point.task_id: scores for scores in run.points}
    parts = {task: scores.planned or len(scores.samples) for task, scores in tasks.items()}
    found = [f"{tasks[task].task}: {n} of {whole[task]} samples" for task, n in parts.items() if n < whole.get(task, 0)]
    limit = f" (limit {facts['limit']})" if facts.get("limit") else ""
    return [f"asked in part{limit}: {', '.join(found)}"] if found else []


def _older(run: RunScores) -> list[str]:
    if not run.older:
        return []
    named = ", ".join(run.older[:SHOWN]) + (f" and {len(run.older) - SHOWN} more" if len(run.older) > SHOWN else "")
    arms = "1 arm of an earlier plan" if len(run.older) == 1 else f"{len(run.older)} arms of earlier plans"
    return [f"not shown: {arms}, {named}; `--all` (in Python `all_arms=True`) shows what is left out"]
