"""What was found as a page shows it: rows and flips by the page's numbers of contestants, tasks and
samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from looktwice.eval.analysis.finding import Finding, TaskFinding
from looktwice.eval.page.data import PageChange, PageData, PageEvidence, PageFinding
from looktwice.eval.page.of_runs import RunPage
from looktwice.eval.page.pairs import ALL
from looktwice.pipelines.counted import counted, listed


def page_evidence(found: Finding, page: RunPage) -> PageEvidence | None:
    """The flips of a finding, None where nothing is sure."""
    if not found.flips:
        return None
    first = found.flips[0]
    names = first.baseline, first.arm
    number = next(n for n, run in enumerate(page.runs) if run.by_id.keys() >= {*names})
    base, arm = (page.runs[number].by_id[name] for name in names)
    rival = page.number_of_contestant(number, base.contestant)
    contestant = page.number_of_contestant(number, arm.contestant)
    samples = [page.number_of(arm, flip.sample) for flip in found.flips]
    return PageEvidence(contestant, rival, samples, found.evidence, first.is_gained)


def show_finding(data: PageData, found: Finding, page: RunPage) -> PageData:
    """The data of a page with what was found and what was run."""
    tables = [table for task in found.tasks for table in _tables(task, page)]
    return replace(data, finding=tables, sentences=found.sentences, about=" · ".join(_about(page)))


def _tables(task: TaskFinding, page: RunPage) -> Iterator[PageFinding]:
    run = [scored.name for scored in page.runs].index(task.run)
    tasks, changes = [*page.tasks], list[PageChange]()
    for row in task.rows:
        who = page.number_of_contestant(run, row.contestant)
        numbers = row.accuracy, row.difference
        changes.append(PageChange(row.label, who, *numbers, row.sure, row.failure))
    is_base = [row.is_baseline for row in task.rows]
    base = changes[is_base.index(True)].contestant if any(is_base) else None
    if changes:
        where = tasks.index(task.task) if task.task in tasks else ALL
        title = f"{task.task} ({task.run})" if len(page.runs) > 1 else task.task
        yield PageFinding(title, where, base, changes, task.chance)


def _about(page: RunPage) -> Iterator[str]:
    """Models, answers, the day of the first run, and whether all that was planned is there."""
    nodes: list[Any] = [arm.point.spec.get("model") for run in page.runs for arm in run.points]
    used = [node for node in nodes if node]
    names = [str(node.get("model") or str(node.get("use")).rpartition(".")[2]) for node in used]
    models = list(dict.fromkeys(names))
    if models:
        yield listed(models, 3)
    yield counted(sum(map(len, page.answers.values())), "answer")
    facts = [run.folder.facts for run in page.runs]
    if started := str(facts[0].get("started") or ""):
        day = datetime.fromisoformat(started)
        yield f"{day.day} {day:%b %Y}"
    yield "complete" if all(fact.get("finished") for fact in facts) else "unfinished"
