"""The tables of scored rows: contestants by tasks, every metric, totals, tokens, and failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    attribute_columns,
    format_cost,
    format_p,
    format_with_interval,
    nonzero_cell,
    percent,
    percentage_points,
    table,
    text,
)
from looktwice.eval.scoring.columns import REASONS
from looktwice.eval.scoring.metrics import METRICS
from looktwice.eval.scoring.row import Row, Rows
from looktwice.eval.scoring.run_rows import is_benchmark_metric
from looktwice.eval.scoring.verdict import RunScores, Verdict

MAX_FAILURES = 12  # different errors that a table lists
VERSUS_PEOPLE_HEADER = "vs\npeople"
"""The header of the column that `compare_to_people` fills."""


def overview_table(rows: Rows, benchmark_rows: Rows) -> TextTable:
    """Return a table of contestants by tasks: accuracy in percent with its interval below it.

    The benchmarks' headline metrics, whose rows are `benchmark_rows`, come first; then macro and
    micro.
    """
    answered = {
        get_arm_key(row): percent(row.value) for row in rows if row.metric == "accuracy_answered"
    }
    rows = [row for row in rows if row.metric == "accuracy" and not row.slice]
    own = [row for row in benchmark_rows if not row.slice]
    cells = {(row.run, row.contestant, row.task, row.metric): row for row in (*rows, *own)}
    given = defaultdict[tuple[str, str], set[str]](set)
    for row in rows:
        given[row.run, row.contestant] |= {row.task_name} - {""}
    whole, with_run = len(set().union(*given.values())), _make_run_namer(rows)

    def name(line: tuple[str, str]) -> str:
        run, contestant = line
        short = f"\n{len(given[line])} of {whole} tasks" if len(given[line]) < whole else ""
        return with_run(contestant, run) + short

    def cell(line: tuple[str, str], task: str, metric: str) -> str:
        row = cells.get((*line, task, metric))
        if row is None:
            return ""
        if row.value is None:
            return explain_no_value(row) or ("not asked" if row.missing else "no samples")
        below = [format_interval(row)]
        if row.failed:
            rest = answered.get(get_arm_key(row), "") if metric == "accuracy" else ""
            below.append(f"{row.failed} of {row.n} failed; {rest} of those answered")
        if gap := compare_to_people(row):
            below.append(f"vs people {gap}")
        return f"{percent(row.value)}\n{'; '.join(filter(None, below))}".rstrip()

    tasks = list(dict.fromkeys(row.task for row in sort_rows(rows)))
    titles = {(row.task, row.metric): f"{row.task}\n{row.metric}" for row in own}
    for task in (*tasks[-2:], *tasks[:-2]):
        titles[task, "accuracy"] = task.replace(" [", "\n[", 1)
    columns = [Column("contestant", name, text)]
    for place, title in titles.items():
        columns.append(Column(title, partial(cell, task=place[0], metric=place[1])))
    return table(columns, given)


def _make_run_namer(rows: Rows) -> Callable[[str, str], str]:
    """Return a function that names a contestant, with its run if there are several."""
    many = len({row.run for row in rows}) > 1
    return lambda contestant, run: f"{contestant} ({run})" if many else contestant


def get_arm_key(row: Row) -> tuple[str, ...]:
    """Return the key that the rows of all metrics of an arm, or of one slice of it, share."""
    return row.run, row.contestant, row.task, row.slice


def task_table(rows: Rows, full: bool = False, benchmark_metrics: Sequence[str] = ()) -> TextTable:
    """Return the rows of one task (all its metrics): a line per arm, with counts and the comparison
    with the baseline.

    `full` is for the rows of several tasks: it shows the task's name in addition to its variant.
    `benchmark_metrics` names the benchmark's own metrics; each gets a column after accuracy.
    """
    by_name = {(*get_arm_key(row), row.metric): row for row in rows}
    with_run = _make_run_namer(rows)

    def variant(row: Row) -> str:
        task = row.task
        if row.task_name and not full:
            task = task.removeprefix(row.task_name).strip(" []")
        return ", ".join(filter(None, (task, row.slice)))

    def metric(name: str) -> Column[Row]:
        def value(row: Row) -> float | None:
            own = by_name.get((*get_arm_key(row), name))
            return own.value if own else None

        first, _, rest = name.partition("_")
        return Column(f"{first}\n{rest.replace('_', ' ')} %".replace("\n %", "\n%"), value, percent)

    columns: Columns[Row] = (
        Column("contestant", lambda row: with_run(format_contestant(row), row.run), text),
        Column("task" if full else "variant", variant, text),
        Column("accuracy %", _value_cell),
        *map(metric, benchmark_metrics),
        Column("n", "n"),
        Column("clusters", format_clusters),
        *(Column(name, name) for name in ("right", "wrong", "unreadable", "failed")),
        Column("missing", "missing", nonzero_cell),
        Column("key hidden", "hidden", nonzero_cell),
        Column("groups", "n_groups", nonzero_cell),
        *(metric(name) for name in METRICS if name != "accuracy"),
        Column("delta", format_delta),
        Column("p", "p", format_p),
        Column(VERSUS_PEOPLE_HEADER, compare_to_people),
    )
    lines = drop_repeats([row for row in rows if row.metric == "accuracy"])
    several = full or len(set(map(variant, lines))) > 1
    grid = table(columns, lines).without_empty()
    return grid if several else grid.without("variant")


def _value_cell(row: Row) -> str:
    value = percent(row.value, 2) or explain_no_value(row)
    return f"{value}\n{format_interval(row)}" if row.low is not None else value


def notebook_table(rows: Rows, benchmark_rows: Rows = ()) -> TextTable:
    """Return all rows in one block per task, named on its first line; a single task has no means.
    Each metric of `benchmark_rows`, the rows of the benchmarks' headline metrics, gets a column."""
    quoted = dict.fromkeys(row.metric for row in benchmark_rows)
    grid = task_table(
        sort_rows(drop_means_of_one(rows)), full=True, benchmark_metrics=tuple(quoted)
    )
    header, *turned = ((task, who, *cells) for who, task, *cells in (grid.header, *grid.rows))
    return TextTable(header, turned, 2).without_repeats("task")


def benchmark_metric_table(rows: Rows) -> TextTable:
    """Return the benchmarks' own metrics: a line per task, metric and contestant, with the unit of
    each metric."""
    with_run = _make_run_namer(rows)
    columns: Columns[Row] = (
        *attribute_columns("task", "metric", "slice"),
        Column("contestant", lambda row: with_run(row.contestant, row.run), text),
        Column("value %", lambda row: percent(row.value, 2) and _value_cell(row)),
        Column("n", "n"),
        Column("unit", "unit"),
        Column("clusters", format_clusters),
        Column("levels", lambda row: row.n_groups if row.unit == "sample" else None),
        Column("delta", format_delta),
        Column("p", "p", format_p),
        Column(VERSUS_PEOPLE_HEADER, lambda row: compare_to_people(row, 2)),
    )
    lines = list(filter(is_benchmark_metric, rows))
    order = list(dict.fromkeys((row.task, row.metric) for row in lines))
    lines.sort(key=lambda row: order.index((row.task, row.metric)))
    whole = table(columns, lines).without_empty()
    return whole if any(row.slice for row in lines) else whole.without("slice")


def reason_table(runs: Sequence[RunScores]) -> TextTable:
    """Return the reasons for unreadable answers, a line per arm that has any."""
    lines = []
    for scores in chain(*(run.points for run in runs)):
        counts = Counter[str]()
        for words, number in scores.count_by_words(Verdict.UNREADABLE).items():
            counts[words.reason] += number
        if counts:
            cells = map(nonzero_cell, map(counts.__getitem__, REASONS))
            lines.append((scores.contestant, scores.task, *cells))
    return TextTable(("contestant", "task", *REASONS), lines, 2).without_empty()


def failure_table(runs: Sequence[RunScores]) -> TextTable:
    """Return the errors: the first line of each with its count and an example, most frequent
    first."""
    samples = defaultdict[tuple[str, str, str], list[str]](list)
    for scores in chain(*(run.points for run in runs)):
        for row in np.flatnonzero(scores.columns.has_verdict(Verdict.FAILED)).tolist():
            entry = scores.columns.record(row)
            error = (entry.detail.strip().splitlines() or ["no message"])[0][:200]
            samples[scores.contestant, scores.task, error].append(entry.sample)
    frequent = sorted(samples.items(), key=lambda failure: -len(failure[1]))[:MAX_FAILURES]
    lines = [(*arm, failed[0], str(len(failed))) for arm, failed in frequent]
    return TextTable(("contestant", "task", "error", "for example", "samples"), lines, 4)


def token_table(rows: Rows) -> TextTable:
    """Return the tokens of every contestant, as counted by the server, and their list price; cached
    replies are included."""
    columns: Columns[Row] = (
        *attribute_columns("contestant"),
        Column("tokens in", "tokens_in", "{:,}"),
        Column("tokens out", "tokens_out", "{:,}"),
        Column("cost\n(list price)", "cost", format_cost),
    )
    totals = [row for row in rows if (row.metric, row.task, row.slice) == ("accuracy", "micro", "")]
    return table(columns, [row for row in totals if row.tokens_in]).without_empty()


def sort_rows(rows: Rows) -> list[Row]:
    """Sort rows by task, with the variants of each together, and macro and micro at the end."""
    names = list(dict.fromkeys(row.task_name for row in rows))
    tasks = list(dict.fromkeys(row.task for row in rows))
    last = {"macro": 1, "micro": 2}

    def place(row: Row) -> tuple[int, ...]:
        total = 0 if row.task_name else last[row.task]
        return total, names.index(row.task_name), tasks.index(row.task)

    return sorted(rows, key=place)


def drop_repeats(rows: Rows) -> list[Row]:
    """Keep the rows of majority and chance once per task, because most variants of a task have the
    same correct answers."""
    seen = set[tuple[Any, ...]]()
    kept = []
    for row in rows:
        identity = (row.run, row.contestant, row.task_name or row.task, row.slice, row.value, row.n)
        if row.point or identity not in seen:
            kept.append(row)
        seen.add(identity)
    return kept


def drop_means_of_one(rows: Rows) -> list[Row]:
    """Drop the macro and micro rows of a contestant with one task, because they equal its
    accuracy."""
    single = len({row.task for row in rows if row.task_name}) == 1
    return [row for row in rows if row.task_name or not (single or row.n_tasks == 1)]


def format_contestant(row: Row) -> str:
    """Return the contestant, with the number of tasks if a mean does not cover all: "plain (2 of 3
    tasks)"."""
    part = row.task in ("macro", "micro") and row.n_tasks < row.of_tasks
    return f"{row.contestant} ({row.n_tasks} of {row.of_tasks} tasks)" if part else row.contestant


def compare_to_people(row: Row, digits: int = 1) -> str:
    """Return the difference from the published human accuracy in points; empty if none is
    published."""
    if row.people is None or row.value is None:
        return ""
    return percentage_points(row.value - row.people, digits)


def format_delta(row: Row) -> str | None:
    """Format the difference of a row from its baseline, with its interval if it has one."""
    if row.delta is None:
        return None
    return format_with_interval(row.delta, row.delta_low, row.delta_high, sign=True)


def format_clusters(row: Row) -> str:
    """Return the number of clusters, or an empty string if every unit is its own cluster."""
    return "" if row.clusters is None or row.clusters == row.n else str(row.clusters)


def format_interval(row: Row) -> str:
    """Format the confidence interval of a row in percent."""
    return "" if row.low is None or row.high is None else f"{percent(row.low)}–{percent(row.high)}"


def explain_no_value(row: Row) -> str:
    """Return why a row has no value: every answer failed (with the most common failure below),
    correct answers are hidden, or no judge has graded it."""
    if row.failure or (row.failed and not (row.point or row.hidden)):
        return f"failed\n{row.failure}".strip()
    return "key hidden" if row.hidden else "not judged" if row.unreadable else ""
