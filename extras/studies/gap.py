"""The reasons why two contestants' numbers differ (the effect of each factor, and the rest), and
the differences between a run and published results or people on the same items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from statistics import fmean
from typing import Any

import numpy as np

from looktwice.eval.analysis.analyses import Analysis
from looktwice.eval.display.score_tables import compare_to_people
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    attribute_columns,
    change_cell,
    estimate_cell,
    format_p,
    percent,
    percentage_points,
    table,
)
from looktwice.eval.scoring.labels import get_contestant_changes, get_setting_at
from looktwice.eval.scoring.row import Row, get_units, make_comparable_accuracy
from looktwice.eval.scoring.run_rows import (
    comes_from_another_split,
    list_published_names,
    list_task_metrics,
)
from looktwice.eval.scoring.verdict import Metric, PointScores, RunScores
from looktwice.eval.statistics.contrasts import mean_difference
from looktwice.eval.statistics.intervals import Estimate, share_interval
from looktwice.eval.statistics.paired import ALPHA, compare_paired, holm
from looktwice.eval.tasks.table_files import read_texts
from looktwice.extras.annotation.ratings import HUMANS_FILE, MAJORITY
from looktwice.extras.studies.unpaired import compare_shares

MAX_ROUNDING_ERROR = 0.0101
"""The largest difference, in percent, between a printed share and k/n: papers round or truncate."""
INTERACTION, WHOLE_GAP = "interaction", "the whole gap"


@dataclass(frozen=True)
class FactorEffect:
    """The effect of changing one factor alone, which changes the metric from `metric_before` to
    `metric_after` on
    the units that all arms have.

    The factors are followed by `interaction` (the gap minus the sum of their effects) and the whole
    gap. The effect lies in -1..1, except for `interaction`; the effect's p is NaN if the effect was
    not tested. `share_of_gap` is the effect's share of the gap, given only if the gap is
    significant (for a mean over tasks, by its interval).
    """

    task: str
    metric: str
    factor: str
    effect: Estimate
    metric_before: float | None = None
    metric_after: float | None = None
    share_of_gap: float | None = None

    @property
    def p(self) -> float | None:
        """The p value of the effect; None if it was not tested."""
        return None if isnan(self.effect.p) else self.effect.p


def find_factor_effects(run: RunScores) -> list[FactorEffect]:
    """Return the effects of the factors in a run whose configuration has `gap: {from: ..., to:
    ...}`; empty without `gap`.

    Effects are given for every task and each of its metrics that is a mean over units, then over
    all tasks: `macro` is the mean of the tasks' effects, `micro` pools their units; both cover only
    factors that every task has.
    """
    gap = run.config.get("gap")
    if not isinstance(gap, dict):
        return []
    by_task = defaultdict[str, list[PointScores]](list)
    for scores in run.points:
        by_task[scores.point.task_id].append(scores)
    lines, accuracies = list[FactorEffect](), list[Mapping[str, Metric]]()
    for own in by_task.values():
        if arms := _select_arms(own, gap):
            metrics = _find_shared_metrics(arms)
            accuracies.append(metrics["accuracy"])
            for name, by_arm in metrics.items():
                lines += _measure_effects(arms["from"].task, name, [by_arm])
    if len(accuracies) < 2:
        return lines
    every = [name for name in accuracies[0] if all(name in by_arm for by_arm in accuracies)]
    shared = [{name: by_arm[name] for name in every} for by_arm in accuracies]
    tasks = [
        effects for by_arm in shared if (effects := _measure_effects("", "accuracy", [by_arm]))
    ]
    macro = [_average_effects(same) for same in zip(*tasks, strict=True)]
    return lines + _add_share_of_gap(macro) + _measure_effects("micro", "accuracy", shared)


FACTOR_COLUMNS: Columns[FactorEffect] = (
    *attribute_columns("task", "metric", "factor"),
    Column("from", "metric_before", percent),
    Column("with", "metric_after", percent),
    Column("effect", "effect", change_cell),
    Column("p", "p", format_p),
    Column(
        "of gap",
        lambda line: None if line.share_of_gap is None else f"{100 * line.share_of_gap:.0f} %",
    ),
    Column("n", "effect.n"),
)


def make_factor_table(scored: Table) -> TextTable:
    """Build a table of each factor's effect in percentage points, with its paired interval and
    p."""
    return table(
        FACTOR_COLUMNS, [line for run in scored.scores for line in find_factor_effects(run)]
    )


def _select_arms(points: Sequence[PointScores], gap: Mapping[str, str]) -> dict[str, PointScores]:
    """Return the arms of one task by name: "from" and "to", then the arms with one changed factor,
    by the factor's name. Empty if either of the two contestants was not asked.
    """
    plain = {arm.point.contestant: arm for arm in points if not get_contestant_changes(arm.point)}
    if not {gap["from"], gap["to"]} <= plain.keys():
        return {}
    arms = {"from": plain[gap["from"]], "to": plain[gap["to"]]}
    for arm in points:
        changes = [*get_contestant_changes(arm.point).items()]
        if arm.point.contestant == gap["from"] and len(changes) == 1:
            path, value = changes[0]
            start, end = (_get_setting(arms[side], path) for side in ("from", "to"))
            if _get_setting(arm, path) == end != start:
                name = f"{path.removeprefix('stages.')}: {'none' if value is None else value}"
                arms[name] = arm
    return arms


def _get_setting(scores: PointScores, path: str) -> object:
    """Return the value at a dotted path in a point's specification, or None."""
    return (
        scores.point.read if path == "read" else get_setting_at(scores.point.spec, path.split("."))
    )


def _find_shared_metrics(arms: Mapping[str, PointScores]) -> dict[str, dict[str, Metric]]:
    """Return the metrics that all arms have, each by arm: accuracy, and the benchmark's metrics
    that are means."""
    by_name = defaultdict[str, dict[str, Metric]](dict)
    for name, scores in arms.items():
        for metric in (make_comparable_accuracy(scores), *list_task_metrics(scores)):
            if metric.value is None and metric.p is None and not metric.slice:
                by_name[metric.name][name] = metric
    return {name: by_arm for name, by_arm in by_name.items() if len(by_arm) == len(arms)}


def _measure_effects(
    task: str, metric: str, tasks: Sequence[Mapping[str, Metric]]
) -> list[FactorEffect]:
    """Return the effect of each factor, the interaction and the gap, on the units of these tasks
    that all arms have; empty without such units."""
    values = get_units({name: [by_arm[name] for by_arm in tasks] for name in tasks[0]})
    values = values.where(values.valid_mask())
    if not values.units:
        return []
    start, end = values["from"], values["to"]

    def make_effect(factor: str, arm: str) -> FactorEffect:
        paired = compare_paired(values[arm], start, values.clusters, values.strata)
        return FactorEffect(task, metric, factor, paired, fmean(start), fmean(values[arm]))

    lines = [*map(make_effect, values.arms[2:], values.arms[2:])]
    if lines:
        left = end - start - (values.value[2:] - start).sum(axis=0)
        rest = mean_difference(left.round(12) + 0.0, values.clusters, values.strata)
        lines.append(FactorEffect(task, metric, INTERACTION, replace(rest, p=nan)))
    return _add_share_of_gap([*lines, make_effect(WHOLE_GAP, "to")])


def _add_share_of_gap(lines: Sequence[FactorEffect]) -> list[FactorEffect]:
    """Add each effect's share of the gap (the last effect), if the gap is significant by its p or,
    for a mean, by its interval."""
    if not lines:
        return []
    whole, p = lines[-1].effect, lines[-1].p
    if not (p < 0.05 if p is not None else whole.low > 0 or whole.high < 0):
        return [*lines]
    return [replace(line, share_of_gap=line.effect.value / whole.value) for line in lines]


def _average_effects(lines: Sequence[FactorEffect]) -> FactorEffect:
    """Average one factor's effects over tasks, combining their limits (MOVER, Zou and Donner
    2008)."""
    first, rows = lines[0], []
    for line in lines:
        effect = line.effect
        rows.append(
            (effect.value, effect.low, effect.high, effect.n, line.metric_before, line.metric_after)
        )
    value, low, high, n, before, after = np.array(rows, float).T
    mean, units = fmean(value), int(n.sum())
    below, above = (float(np.linalg.norm(end - value)) / len(rows) for end in (low, high))
    ends = (None, None) if first.metric_before is None else (fmean(before), fmean(after))
    whole = Estimate(mean, mean - below, mean + above, units, units)
    return FactorEffect("macro", first.metric, first.factor, whole, *ends)


# ---- comparison with published results and with people


def make_published_table(scored: Table) -> TextTable:
    """Build a table with a line for each row of `published:` in the runs' configurations, in
    percent, with its source.

    A published row is `name: {source: its source, accuracy: {task: percent}}`. The columns are the
    tasks of the runs for which any row has an accuracy, then further entries: totals such as
    `macro` or `blink_macro`, or `task.metric`. The header flags a task with errata, and a row's
    name flags a split that is not the run's. The last lines are the runs' contestants, and their
    differences from people in points, if a row has `people: true`.
    """
    published: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in scored.scores:
        for name, row in (run.config.get("published") or {}).items():
            accuracies = row.get("accuracy") or {}
            if any(comes_from_another_split(run, row, str(task)) for task in accuracies):
                suffix = f" on {row['split']}"
                name = str(name).removesuffix(suffix) + suffix
            published[str(name), str(row.get("source", ""))] = accuracies
    given = dict.fromkeys(task for accuracies in published.values() for task in accuracies)
    lines = list[tuple[str, str, Mapping[str, str]]]()
    for (name, source), accuracies in published.items():
        cells = {t: f"{float(v):.2f}" for t, v in accuracies.items() if v is not None}
        lines.append((name, source, cells))
    contestants = {arm.contestant for run in scored.scores for arm in run.points}
    here = defaultdict[str, dict[str, Row]](dict)
    for row in scored.where(slice=""):
        if row.value is not None and row.contestant in contestants:
            here[row.contestant] |= {n: row for n in list_published_names(row) if n in given}
    for name, rows in here.items():
        if rows:
            lines.append((name, "this run", {t: percent(r.value, 2) for t, r in rows.items()}))
            gaps = {task: compare_to_people(row, 2) for task, row in rows.items()}
            lines += [(f"{name}, vs people", "points", gaps)] if any(gaps.values()) else []
    errata = {
        arm.point.task: arm.point.facts.get("errata") for run in scored.scores for arm in run.points
    }
    tasks = sorted(given, key=lambda task: [*errata, task].index(task))
    titles = [f"{task}\nsee its errata" if errata.get(task) else task for task in tasks]
    shown = [(*who, *(cells.get(task, "") for task in tasks)) for *who, cells in lines]
    return TextTable(("who", "source", *titles), shown, 2)


def make_published_gap_table(scored: Table) -> TextTable:
    """Build a table with a line for each contestant and each row of `published:` that states its
    number of questions.

    It shows the difference in points with the exact interval for two samples, and an asterisk if
    the p of Fisher's exact test is below 0.05 after Holm's correction over the table. Rows of
    another split are left out.
    """
    lines = list[tuple[str, str, dict[str, Estimate]]]()
    for run in scored.scores:
        contestants = {arm.contestant for arm in run.points}
        for name, published in (run.config.get("published") or {}).items():
            shares = dict(find_published_shares(published))
            asked = {task for task in shares if not comes_from_another_split(run, published, task)}
            gaps = defaultdict[str, dict[str, Estimate]](dict)
            for row in scored.where(slice=""):
                right = (row.value or 0.0) * row.n
                is_share = row.value is not None and row.n and abs(right - round(right)) < 1e-6
                shared = {*list_published_names(row)} & asked if is_share else ()
                for task in shared if row.contestant in contestants else ():
                    gaps[row.contestant][task] = compare_shares(round(right), row.n, *shares[task])
            lines += [(who, str(name), cells) for who, cells in gaps.items()]
    tasks = list(dict.fromkeys(task for _, _, cells in lines for task in cells))
    corrected = iter(holm([gap.p for _, _, cells in lines for gap in cells.values()]))
    shown = list[tuple[str, ...]]()
    for who, name, cells in lines:
        texts = dict[str, str]()
        for task, gap in cells.items():
            star = "*" if next(corrected) < ALPHA else ""
            texts[task] = (
                f"{percentage_points(gap.value)}{star}\n"
                f"[{percentage_points(gap.low)}, {percentage_points(gap.high)}]"
            )
        shown.append((who, name, *(texts.get(task, "") for task in tasks)))
    return TextTable(("contestant", "minus", *tasks), sorted(shown), 2)


def find_published_shares(published: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield, by task, the k and n of the shares k/n that a row of `published:` with `n` states;
    leave out numbers that are not a share of n, such as a mean of graded values."""
    accuracies = published.get("accuracy") or {}
    for task, n in (published.get("n") or {}).items():
        value = accuracies.get(task)
        if value is not None:
            k = round(float(value) * n / 100)
            if abs(100 * k / n - float(value)) < MAX_ROUNDING_ERROR:
                yield str(task), (k, int(n))


def make_ceiling_table(scored: Table) -> TextTable:
    """Build a table of the accuracy of each contestant and of people, each with its 95 % interval,
    on the items of annotation sheets that were imported into the run's folder.

    People's answers to one sample form a cluster; only the first draw of each contestant counts.
    """
    lines = []
    for run in scored.scores:
        for file in sorted(run.folder.path.glob(f"*/{HUMANS_FILE}")):
            people = [row for row in read_texts(file) if row["contestant"] != MAJORITY]
            for arm in run.points:
                answers = [row for row in people if row["task"] == arm.task]
                samples = [row["sample"] for row in answers]
                firsts = filter(None, map(arm.first, dict.fromkeys(samples)))
                if values := [first.score.value for first in firsts]:
                    right = share_interval([row["value"] == "right" for row in answers], samples)
                    shares = estimate_cell(share_interval(values)), estimate_cell(right)
                    about = file.parts[-3], arm.task, arm.contestant, str(len(values))
                    lines.append((*about, *shares))
    return TextTable(("sheet", "task", "contestant", "items", "right %", "people %"), lines, 3)


FACTORS_ANALYSIS = Analysis(
    "gap", "Why the numbers differ", make_factor_table, ending=make_factor_table
)
PEOPLE_ANALYSIS = Analysis("people", "People on the same items", make_ceiling_table, wrap=False)
PUBLISHED_ANALYSIS = Analysis("published", "Published results", make_published_table, wrap=False)
PUBLISHED_GAPS_ANALYSIS = Analysis(
    "published-gaps",
    "Difference from published results, points",
    make_published_gap_table,
    wrap=False,
)
