"""The findings of a study at a glance: the contestants of each task compared with the baseline,
which differences are significant, and sentences that summarize them, for terminal, page, report.md
and notebook.

A difference is significant if its p, after Holm's correction over the run's comparisons on single
tasks, is below 5 %. If contestants share several tasks, the level is 2.5 %, and also 2.5 % for
comparisons on all tasks together, which are corrected separately. Several runs share this level
equally. An interaction is reported if some difference is significant and its own p, after Holm's
correction over the run's effects, is below 5 %. So at most 5 % of studies without any true
difference report one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from random import Random
from typing import Any

from looktwice.eval.analysis.analyses import find_analyses
from looktwice.eval.analysis.one_change import FindingRow, OneChangeStudy, TaskArms
from looktwice.eval.display.table import Table, describe_judging
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    change_cell,
    format_cost,
    format_p,
    format_signed,
    percent,
    share_cell,
    table,
    text,
)
from looktwice.eval.scoring.columns import Words
from looktwice.eval.scoring.labels import ALL_TASKS
from looktwice.eval.scoring.notes import find_commonest_reason
from looktwice.eval.scoring.run_rows import list_headline_rows
from looktwice.eval.scoring.verdict import Verdict
from looktwice.eval.statistics.intervals import Estimate
from looktwice.pipelines.counted import format_count

MAX_CHANGES = 4  # significant changes that a sentence lists
# tasks with all their sentences; for others, only significant changes are counted
MAX_DETAILED_TASKS = 3
MAX_FLIPS, FLIP_SEED = 4, 0
SHOWN_NOTE_PREFIXES = (
    *("warning", "unfinished", "partly asked", "also shown", "not shown", "failed", "refused"),
    *("changed nothing", "changed little", "found nothing"),
)
"""The prefixes of the table notes that are shown with the findings."""


@dataclass(frozen=True)
class TaskFinding:
    """The findings on one task of a run; `rows` are sorted by accuracy, the best first.

    `task` is "all tasks" for the tasks that the baseline shares with other contestants, if there
    are several. `baseline` names the baseline with its swept settings; `chance` is the chance level
    in 0..1. `is_one_change` is True if every row differs from the baseline only in its model or in
    one stage.
    """

    run: str
    task: str
    rows: tuple[FindingRow, ...]
    sentences: tuple[str, ...]
    baseline: str = ""
    chance: float | None = None
    is_one_change: bool = True

    @property
    def caption(self) -> str:
        """The title of the table of this task."""
        return f"{self.task}, one change at a time" if self.is_one_change else self.task

    @property
    def spread(self) -> float:
        """The difference between the highest and the lowest accuracy of the rows."""
        values = [row.accuracy.value for row in self.rows if row.accuracy]
        return max(values, default=0.0) - min(values, default=0.0)


@dataclass(frozen=True)
class Flip:
    """A sample that the largest significant change flips, with the answers of baseline and arm."""

    sample: str
    baseline: str
    arm: str
    before: str | None
    after: str | None
    is_gained: bool


@dataclass(frozen=True)
class Finding:
    """The findings of scored runs: a table of all tasks, if several are shared, and one per task,
    those with the widest spread of accuracies first; and samples that the largest significant
    change flips.

    `notes` are sentences on failures, missing answers and stages that changed nothing;
    `flip_selection` says how the flips were chosen.
    """

    tasks: tuple[TaskFinding, ...]
    notes: tuple[str, ...] = ()
    flips: tuple[Flip, ...] = ()
    flip_selection: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences: which contestants and tasks were left out, the findings of the first
        tasks, the number of significant changes on other tasks, then the notes."""
        lines = list(self.left_out)
        for task in self.tasks[:MAX_DETAILED_TASKS]:
            lines += task.sentences
        changes = [
            row for task in self.tasks[MAX_DETAILED_TASKS:] for row in task.rows if row.difference
        ]
        if changes:
            more = format_count(len(self.tasks) - MAX_DETAILED_TASKS, "more task")
            significant = sum(row.is_significant for row in changes)
            verb = "is" if significant == 1 else "are"
            counted = format_count(len(changes), "change")
            lines.append(f"On {more}, {significant} of {counted} {verb} significant.")
        return (*lines, *self.notes)

    @property
    def shown_tasks(self) -> tuple[TaskFinding, ...]:
        """The tasks whose tables are shown: the first, or all if others have contestants that the
        first lacks (such as specialists that answer one task each) or significant differences that
        the mean over all tasks hides."""
        first, others = self.tasks[:1], self.tasks[1:]
        pooled = {(task.run, row.label): row for task in first for row in task.rows}
        named = {(task.run, row.contestant) for task in first for row in task.rows}
        for task in others:
            for row in task.rows:
                mean = pooled.get((task.run, row.label))
                is_hidden = (
                    row.is_significant
                    and mean
                    and not (mean.is_significant and mean.change * row.change > 0)
                )
                if (task.run, row.contestant) not in named or is_hidden:
                    return self.tasks
        return first

    @property
    def rows(self) -> tuple[FindingRow, ...]:
        """The rows of the first table."""
        return self.tasks[0].rows if self.tasks else ()

    def __str__(self) -> str:
        tables = [f"{task.task}:\n{change_table(task)}" for task in self._tables]
        return "\n".join((*self.sentences, *tables))

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.sentences)
        tables = (f"<p>{escape(task.task)}</p>{change_table(task).html}" for task in self._tables)
        return f"<ul>{sentences}</ul>{''.join(tables)}"

    @property
    def _tables(self) -> Sequence[TaskFinding]:
        return self.tasks[: max(MAX_DETAILED_TASKS, len(self.shown_tasks))]

    @property
    def has_significant_change(self) -> bool:
        """True if any difference is significant."""
        return any(row.is_significant for task in self.tasks for row in task.rows)


def find(scored: Table) -> Finding:
    """Return the findings of the runs of a table. For a run that chose its questions adaptively,
    these are only the results of its races."""
    tasks, chosen, evidence = list[TaskFinding](), tuple[Flip, ...](), ""
    notes = list[str]()
    for run in scored.scores:
        if run.folder.facts.get("chosen_by"):  # its arms share no samples
            notes += [line for part in find_analyses(scored) for line in part.sentences(run)]
            continue
        study = OneChangeStudy(scored, run)
        for task in study.tables:
            sentences = tuple(_write_sentences(study, task))
            about = run.name, task.task, task.rows, sentences, task.name
            tasks.append(TaskFinding(*about, task.chance, task.is_one_change))
        if not chosen:
            chosen, evidence = _choose_flips(study)
    tasks.sort(key=lambda task: (task.task != ALL_TASKS, -task.spread))
    left_out = [
        f"Left out: {line}."
        for run in scored.scores
        for line in describe_left_out(run.folder.facts.get("left_out") or {})
    ]
    notes += _describe_notes(scored)
    return Finding(tuple(tasks), tuple(notes), chosen, evidence, tuple(dict.fromkeys(left_out)))


def describe_left_out(reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield, for each reason, the contestants and the number of tasks that a study left out for it,
    as text; `reasons` maps contestants and tasks (`tasks.NAME`) to reasons."""
    for why in dict.fromkeys(reasons.values()):
        names = [name for name, reason in reasons.items() if reason == why]
        listed = [name for name in names if not name.startswith("tasks.")]
        if tasks := len(names) - len(listed):
            listed.insert(0, format_count(tasks, "task"))
        yield f"{', '.join(listed)} ({why})"


def _describe_notes(scored: Table) -> Iterator[str]:
    """Yield sentences on unreadable answers, with the most common reason, and the notes of the
    table, judges, the benchmarks' own metrics and costs."""
    arms = [arm for run in scored.scores for arm in run.points]
    unreadable = Counter[Words]()
    for arm in arms:
        unreadable.update(arm.count_by_words(Verdict.UNREADABLE))
    if unreadable:
        why, answers = find_commonest_reason(unreadable), sum(len(arm.columns) for arm in arms)
        yield f"Unreadable: {unreadable.total():,} of {answers:,} answers, {why}."
    runs = (f"{run.name}: {kind}" for run in scored.scores for kind in SHOWN_NOTE_PREFIXES)
    beginnings = (*SHOWN_NOTE_PREFIXES, *runs)
    yield from (note for note in scored.notes if note.startswith(beginnings))
    for run in scored.scores:
        yield from describe_judging(run)
    own = defaultdict[tuple[str, str], list[str]](list)
    for row in list_headline_rows(scored.scores, scored.rows):
        if not row.slice:
            own[row.task, row.metric].append(f"{row.contestant} {percent(row.value)}")
    for (task, metric), values in own.items():
        more = " ..." if len(values) > MAX_CHANGES else ""
        yield f"{metric} on {task} (%): {', '.join(values[:MAX_CHANGES])}{more}."
    totals = scored.where(metric="accuracy", task="micro", slice="")
    costs = [f"{row.contestant} {format_cost(row.cost)}" for row in totals if row.cost is not None]
    if costs:
        yield (
            "Cost (list price):"
            f" {', '.join(costs[:MAX_CHANGES])}{' ...' * (len(costs) > MAX_CHANGES)}."
        )


def _choose_flips(study: OneChangeStudy) -> tuple[tuple[Flip, ...], str]:
    """Return samples that the largest significant change flips in its direction, and a phrase on
    how they were chosen."""
    significant = [
        (task.base, arm, row)
        for task in study.tables
        for arm, row in task.lines
        if row.is_significant and row.arm  # a row over all tasks has no samples
    ]
    if not significant:
        return (), ""
    base, arm, row = max(significant, key=lambda line: abs(line[2].change))
    sign = 1 if row.change > 0 else -1
    shared = [name for name in base.comparable_values if name in arm.comparable_values]
    moved = [
        s for s in shared if sign * (arm.comparable_values[s] - base.comparable_values[s]) > 1e-9
    ]
    flips = []
    for name in Random(FLIP_SEED).sample(moved, min(MAX_FLIPS, len(moved))):
        before, after = (draw.answer if (draw := a.first(name)) else None for a in (base, arm))
        flips.append(Flip(name, base.point.id, arm.point.id, before, after, sign > 0))
    verb = "gains" if sign > 0 else "loses"
    return tuple(flips), (
        f"{len(flips)} of the {len(moved)} samples of {base.task} that {row.label} {verb},"
        f" drawn at random with seed {FLIP_SEED}"
    )


CHANGE_COLUMNS: Columns[FindingRow] = (
    Column("change", "label", text),
    Column("% right", "accuracy", share_cell),
    Column("difference", "difference", change_cell),
    Column("gained", "difference.better"),
    Column("lost", "difference.worse"),
    Column("failed", lambda row: row.failed_count or None),
    Column("% right of\nanswered", "answered_accuracy", share_cell),
    Column("abstained\n%", lambda row: row.abstained_share or None, percent),
    Column("significant", lambda row: "yes" if row.is_significant else None),
)


def change_table(task: TaskFinding) -> TextTable:
    """Return the rows of a task as a table; an arm whose answers all failed has no number."""
    shown = table(CHANGE_COLUMNS, task.rows)
    header = shown.header if task.is_one_change else ("contestant", *shown.header[1:])
    kept = "% right", "difference", "gained", "lost", "significant"
    return replace(shown, header=header).without_empty(*kept)


# ---- sentences


def _write_sentences(study: OneChangeStudy, task: TaskArms) -> Iterator[str]:
    """Yield the headline, the number of significant changes, interactions, abstentions, and arms
    whose answers all failed."""
    rows, level = task.rows, ""
    if task.chance is not None:
        level += f"; chance is {100 * task.chance:.0f} %"
    if task.human_accuracy is not None:
        level += f"; people reach {100 * task.human_accuracy:.0f} %"
    own = next((row for row in rows if row.is_baseline), None)
    if own is not None:
        yield _describe_headline(task, own, level)
        yield from _describe_counts(task)
    else:
        shares = list[str]()  # nothing was compared: list the best contestants
        for row in rows:
            if row.accuracy:
                shares.append(f"{row.label} {_format_share(row.accuracy)}")
        best = ", ".join(shares[:MAX_CHANGES]) or "no contestant has a score"
        yield f"Accuracy on {task.title}: {best}{level}."
    if any(row.is_significant for table in study.tables for row in table.rows):
        yield from _describe_interactions(study, task)
    yield from _describe_abstentions(task)
    for row in rows:
        if row.failure and not row.is_baseline:
            yield f"{row.label}: every answer failed: {row.failure}."


def _describe_abstentions(task: TaskArms) -> Iterator[str]:
    """Yield how often each contestant abstained, and its accuracy on the rest."""
    for row in task.rows:
        if row.abstained_share:
            share = f"{100 * row.abstained_share:.0f} %"
            answered = (
                row.answered_accuracy
                and f" and is right on {_format_share(row.answered_accuracy)} of the rest"
            )
            yield f"{row.label} abstained on {share} of {task.title}{answered or ''}."


def _describe_interactions(study: OneChangeStudy, task: TaskArms) -> Iterator[str]:
    """Yield a sentence for the largest significant interaction of every two factors, with the
    effect of the first change at both levels of the second, and the other factors over which it is
    averaged."""
    from looktwice.eval.analysis.factors import FACTOR_SEPARATOR, LevelEffect, find_sweep_effects

    largest, factors, base = dict[str, LevelEffect](), dict[str, str](), task.base.point
    place = base.contestant, base.task if task.task != ALL_TASKS else ALL_TASKS
    for line in find_sweep_effects(study.run):
        is_here = (line.contestant, line.task) == place
        if is_here and FACTOR_SEPARATOR not in line.factor:
            factors[line.factor] = study.shorten_path(f"stages.{line.factor}")
        elif is_here and line.is_significant:
            before = largest.get(line.factor)
            if before is None or abs(line.effect.value) > abs(before.effect.value):
                largest[line.factor] = line
    for factor, line in sorted(largest.items(), key=lambda item: -abs(item[1].effect.value)):
        names = [study.shorten_path(f"stages.{part}") for part in factor.split(FACTOR_SEPARATOR)]
        first, second = map(" ".join, zip(names, line.level.split(FACTOR_SEPARATOR), strict=True))
        against = f"{names[1]} {line.against.split(FACTOR_SEPARATOR)[1]}"
        parts = [format_signed(part.value, 0) for part in line.parts[:2]]
        others = " and ".join(name for name in factors.values() if name not in names)
        over = f" averaged over {others}," if others else ""
        yield (
            f"{names[0].capitalize()} and {names[1]} interact ({format_whole_points(line.effect)}):"
            f"{over} {first} changes accuracy by {parts[0]} with {against}, by {parts[1]} with"
            f" {second}."
        )


def format_whole_points(estimate: Estimate) -> str:
    """Return a difference in whole percentage points with its interval: "+48 points [35, 58]"."""
    low, high = (format_signed(end, 0).removeprefix("+") for end in (estimate.low, estimate.high))
    return f"{format_signed(estimate.value, 0)} points [{low}, {high}]"


def _format_share(estimate: Estimate) -> str:
    low, high = 100 * estimate.low, 100 * estimate.high
    return f"{100 * estimate.value:.0f} % [{low:.0f}, {high:.0f}]"


def _describe_headline(task: TaskArms, own: FindingRow, level: str) -> str:
    """Describe the baseline compared with the arm without the swept stage, or with chance."""
    beginning, without = f"On {task.title}, {task.name}", task.row_without_stage
    if own.accuracy is None:
        why = f"every answer failed: {own.failure}" if own.failure else "no answer has a score"
        return f"{beginning}: {why}."
    share, n = _format_share(own.accuracy), own.accuracy.n
    level = (
        f" ({own.failed_count} of them failed and score 0){level}" if own.failed_count else level
    )
    if without is None or without.accuracy is None or without.difference is None:
        return f"{beginning} is right on {share} of {format_count(n, 'sample')}{level}."
    lacking = f"{100 * without.accuracy.value:.0f} %"
    if not without.is_significant:
        return (
            f"{beginning} is right on {share} of {format_count(n, 'sample')}, {without.label} on"
            f" {lacking}: no significant difference."
        )
    verb = "raises" if without.change < 0 else "lowers"
    node: Any = task.base.point.spec.get("model") or {}
    model = node.get("model") or str(node.get("use", "it")).rpartition(".")[2]
    return f"{beginning} {verb} {model} from {lacking} right ({without.label}) to {share}."


def _describe_counts(task: TaskArms) -> Iterator[str]:
    """Describe how many arms are significantly better or worse, and the largest differences."""
    compared = [row for row in task.rows if row.difference is not None]
    noun = "variants" if task.is_one_change else "contestants"
    changes = sorted(
        (row for row in compared if row.is_significant), key=lambda row: -abs(row.change)
    )
    if not compared:
        return
    many, first = len(compared), compared[0]
    if many == 1 and first.difference:
        kind = "better" if first.change > 0 else "worse"
        verb = f"is significantly {kind} than" if changes else "does not differ significantly from"
        yield f"{first.label} {verb} the baseline: {format_whole_points(first.difference)}."
    elif not changes:
        least = format_p(min(1.0 if row.p_holm is None else row.p_holm for row in compared))
        yield (
            f"None of {many} {noun} differs significantly from the baseline; the smallest p is"
            f" {least} (Holm)."
        )
    else:
        better = sum(row.change > 0 for row in changes)
        counts = []
        for kind, number in (("better", better), ("worse", len(changes) - better)):
            if number:
                counts.append(f"{number} {'is' if number == 1 else 'are'} significantly {kind}")
        largest = [f"{row.label} {format_signed(row.change, 0)}" for row in changes[:MAX_CHANGES]]
        more = f" and {len(changes) - MAX_CHANGES} more" if len(changes) > MAX_CHANGES else ""
        yield f"Of {many} {noun}, {' and '.join(counts)}: {', '.join(largest)} points{more}."
