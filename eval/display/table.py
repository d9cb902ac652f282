"""The long table of one or several runs, for all samples or a subset written by the analysis
`audit`, and its display on a terminal, in a notebook and as CSV."""

from __future__ import annotations

import csv
import html
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import with_config
from typing_extensions import TypedDict

from looktwice.eval.display.printable import format_csv
from looktwice.eval.display.score_tables import (
    VERSUS_PEOPLE_HEADER,
    compare_to_people,
    drop_means_of_one,
    drop_repeats,
    explain_no_value,
    format_clusters,
    format_contestant,
    format_interval,
    get_arm_key,
    notebook_table,
    sort_rows,
)
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    escape_markdown,
    format_cost,
    format_p,
    percent,
    percentage_points,
    table,
    text,
)
from looktwice.eval.records.records import PointRow, RunError, RunFolder, read_yaml
from looktwice.eval.scoring.labels import get_setting
from looktwice.eval.scoring.metrics import collect_measurements
from looktwice.eval.scoring.notes import list_notes, list_unchanged_notes
from looktwice.eval.scoring.row import COLUMNS, Row, Rows
from looktwice.eval.scoring.run_rows import list_headline_rows, run_rows
from looktwice.eval.scoring.score import pause_collection, score_run
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.counted import format_count, format_list
from looktwice.pipelines.json_input import ALLOW_EXTRA
from looktwice.pipelines.state import Stage

if TYPE_CHECKING:
    import pandas

    from looktwice.eval.display.console_tables import ConsoleTable
    from looktwice.pipelines.config.plan import Plan

MAX_REASON_LENGTH = 160  # characters of a reason
MAX_NAMED_ARMS = 3  # arms that a line names


@with_config(ALLOW_EXTRA)
class SubsetNode(TypedDict):
    """The samples of a subset."""

    ids: list[str]


@with_config(ALLOW_EXTRA)
class SubsetTaskNode(TypedDict):
    """A task with a subset."""

    subset: SubsetNode


@with_config(ALLOW_EXTRA)
class FragmentNode(TypedDict, total=False):
    """A fragment of a configuration that names subsets."""

    task: SubsetTaskNode
    tasks: dict[str, SubsetTaskNode] | None


MeasuredValue = TypeVar("MeasuredValue")


def cache_measure(
    measure: Callable[[RunScores], MeasuredValue],
) -> Callable[[RunScores], MeasuredValue]:
    """Cache a function's result on the run's scores, because several tables show it."""

    @wraps(measure)
    def cached(run: RunScores) -> MeasuredValue:
        name, cache = f"_{measure.__module__}.{measure.__qualname__}", vars(run)
        if name not in cache:
            cache[name] = measure(run)
        value: MeasuredValue = cache[name]
        return value

    return cached


@dataclass(frozen=True)
class Table:
    """Rows of the long table: the tasks of each contestant with its macro and micro means, then
    majority and chance.

    `scores` are the runs that the rows were computed from, `by` the fields that they are sliced by.
    A notebook and `print` show the accuracy of every point.
    """

    rows: tuple[Row, ...]
    scores: tuple[RunScores, ...] = field(default=(), repr=False)
    by: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, **fields: Any) -> Table:
        """Return the rows whose fields have these values, such as `metric="accuracy", slice=""`."""
        wanted = list(fields.items())
        rows = [r for r in self.rows if all(getattr(r, name) == value for name, value in wanted)]
        return replace(self, rows=tuple(rows))

    @cached_property
    def unchanged(self) -> tuple[str, ...]:
        """Notes on stages that changed few requests or none, which explains a delta of zero."""
        return self._collect_notes(list_unchanged_notes)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes on stages that changed nothing, on the baseline that `delta` refers to, and on
        samples or arms that are missing or left out, such as older arms."""
        return (*self.unchanged, *self._collect_notes(list_notes))

    def _collect_notes(self, describe: Callable[[RunScores], Sequence[str]]) -> tuple[str, ...]:
        many = len(self.scores) > 1
        return tuple(
            f"{run.name}: {line}" if many else line for run in self.scores for line in describe(run)
        )

    @property
    def csv(self) -> str:
        """The columns of report.csv as a header and a line per row; empty if a value does not
        apply.

        A text that begins like a formula (`=`, `+`, `-`, `@`, a tab or a line break) is preceded by
        a single quote.
        """
        return format_csv(self._list_cells())

    def to_pandas(self) -> pandas.DataFrame:
        """Return the columns of report.csv, and one for each setting that the study changes; NaN
        where a value does not apply.

        `stages.mark.radius` holds each arm's radius, changed or not; `stages.think` holds
        the class of the stage, or "none". A mean over tasks has the settings that all its arms
        share.
        """
        import pandas

        changes = (arm.point.changes for run in self.scores for arm in run.points)
        out = io.StringIO(newline="")
        csv.writer(out).writerows(self._list_cells(tuple(dict.fromkeys(chain(*changes)))))
        out.seek(0)
        return pandas.read_csv(out, keep_default_na=False, na_values="")

    def _list_cells(self, places: Sequence[str] = ()) -> Iterator[Sequence[Any]]:
        """Yield the header and the rows, with the settings that the arms of a row share."""
        arms = defaultdict[tuple[str, str], list[PointRow]](list)
        for run in self.scores:
            for scores in run.points:
                for name in (scores.point.id, scores.contestant):
                    arms[run.name, name].append(scores.point)
        yield (*COLUMNS, *places)
        for row in self.rows:
            cells = [getattr(row, name) for name in COLUMNS]
            for place in places:
                points = arms[row.run, row.point or row.contestant]
                levels = {get_setting(point, place) for point in points}
                cells.append(levels.pop() if len(levels) == 1 else None)
            yield [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells]

    def __repr__(self) -> str:
        return str(console_table(self))

    def _repr_html_(self) -> str:
        return self._notebook_table.html + "".join(
            f"<p>{html.escape(line)}</p>" for line in self.notes
        )

    def _repr_markdown_(self) -> str:
        return "\n\n".join((self._notebook_table.markdown, *map(escape_markdown, self.notes)))

    @property
    def _notebook_table(self) -> TextTable:
        return notebook_table(self.rows, list_headline_rows(self.scores, self.rows))


@pause_collection()
def score_table(
    runs: str | Path | Sequence[str | Path],
    reader: Stage | None = None,
    by: Sequence[str] = (),
    judge: str = "",
    *,
    plan: Plan | None = None,
    plugins: Sequence[str] = (),
    all_arms: bool = False,
    only: Path | None = None,
) -> Table:
    """Score runs and return them as one table; `by` names meta fields or measurements to slice by.
    Raises RunError.

    `judge` names the judge whose judgements are used: "" takes the one with the most verdicts in
    each pass, "none" uses none. `plan` is the plan that the runs have just executed; `plugins` are
    packages or .py files whose classes runs may name, as with `--plugin`. `all_arms` adds the arms
    of earlier plans in the same folder. `only` is a file that names the samples to keep, as `audit`
    writes it.
    """
    scored, plugins = [], [load_plugin(name) for name in plugins]
    for path in [runs] if isinstance(runs, str | Path) else runs:
        folder = RunFolder(Path(path))
        run = score_run(folder, reader, judge, plan=plan, plugins=plugins, all_arms=all_arms)
        scored.append(keep_only(run, only) if only else run)
    return make_table(scored, by)


def read_subset(path: Path) -> Mapping[str, set[str]]:
    """Return the sample ids of each task in a fragment of a configuration: `tasks: {depth: {subset:
    {ids: [...]}}}`.

    Raises RunError for any other file.
    """
    try:
        fragment = read_yaml(path, FragmentNode) or {}
    except (OSError, ValueError, yaml.YAMLError) as exc:
        raise RunError(
            f"{path} is not a subset file ({exc}); give one such as clean.yaml from `audit`"
        ) from exc
    tasks = {**(fragment.get("tasks") or {})}
    if "task" in fragment:
        tasks["task"] = fragment["task"]
    if not tasks:
        raise RunError(
            f"{path} names no task with `subset: {{ids: [...]}}`; `looktwice analyse RUN audit`"
            " writes such a file"
        )
    return {str(name): set(node["subset"]["ids"]) for name, node in tasks.items()}


def keep_only(run: RunScores, path: Path) -> RunScores:
    """Return a run's scores on the samples that a subset file names, without tasks that it does not
    name. Raises RunError."""
    ids = read_subset(path)
    names = {scores.point.task for scores in run.points}
    # the short form of a single task, whatever its name is
    if len(names) == 1 and ids.keys() == {"task"}:
        ids = {name: ids["task"] for name in names}
    kept = [scores for scores in run.points if scores.point.task in ids]
    if not any(ids[scores.point.task] & scores.samples.keys() for scores in kept):
        tasks = ", ".join(dict.fromkeys(scores.point.task for scores in run.points))
        raise RunError(f"{path} names no sample of {run.name}, whose tasks are {tasks}")
    labelled = (replace(s.only(ids[s.point.task]), task=f"{s.task} ({path.stem})") for s in kept)
    return replace(run, points=tuple(labelled))


def make_table(runs: Sequence[RunScores], by: Sequence[str] = ()) -> Table:
    """Return the table of scored runs; fields in `by` joined by a comma are crossed. Raises
    RunError for a field that no sample has."""
    fields = set[str]()
    # only for `by`, because going through every sample takes a while
    for scores in chain(*(run.points for run in runs)) if by else ():
        fields.update(collect_measurements(scores), *scores.metas.values())
    for name in ",".join(by).split(",") if by else ():
        if name not in fields:
            raise RunError(
                f"--by {name}: no sample has this field; the fields are:"
                f" {', '.join(sorted(fields)) or 'none'}"
            )
    rows = chain.from_iterable(map(partial(run_rows, by=by), runs))
    return Table(tuple(rows), tuple(runs), tuple(by))


def console_table(shown: Table) -> ConsoleTable:
    """Return the accuracy of every point with its interval, counts and comparison, for a terminal;
    a block per task.

    The benchmarks' headline metrics come first, those over all tasks before those of single tasks.
    """
    every = drop_repeats(sort_rows(shown.where(metric="accuracy").rows))
    rows = drop_means_of_one(every)
    own = drop_repeats(list_headline_rows(shown.scores, shown.rows))
    counts = ["right", "wrong", "unreadable", "failed"] + ["missing"] * any(r.missing for r in rows)
    answered = {get_arm_key(row): row.value for row in shown.where(metric="accuracy_answered")}

    def accuracy(row: Row) -> str:
        value = percent(row.value) or explain_no_value(row).partition("\n")[0] or "-"
        return f"{value}\n{format_interval(row)}".strip()

    def without_failed(row: Row) -> float | None:
        return answered.get(get_arm_key(row)) if row.failed and row.metric == "accuracy" else None

    def verdicts(row: Row) -> str | None:
        return None if row.right is None else "/".join(str(getattr(row, name)) for name in counts)

    columns: Columns[Row] = (
        Column("block", _get_block_title, text),
        Column("task and contestant", format_contestant, text),
        Column("accuracy", accuracy),
        Column("answered", without_failed, percent),
        Column("n", lambda row: f"{row.n} ({format_clusters(row)})".removesuffix(" ()")),
        Column("/".join(name[0] for name in counts), verdicts),
        Column("delta", "delta", percentage_points),
        Column("p", "p", format_p),
        Column(VERSUS_PEOPLE_HEADER, compare_to_people),
    )
    places = list(dict.fromkeys((row.task, row.slice) for row in rows))
    # a total belongs to no single task and comes first
    order = {place: number for number, place in enumerate(places, 1)}
    blocks = defaultdict[str, list[Row]](list)
    for row in sorted([*own, *rows], key=lambda row: order.get((row.task, row.slice), 0)):
        blocks[_get_block_title(row)].append(row)
    caption = _make_caption(own, rows, counts)
    if len(rows) < len(every):
        single = (
            "macro and micro of a contestant with one task are not shown: they equal its accuracy"
        )
        caption.append(single)
    caption += [*shown.notes, *_describe_failures_and_costs(shown, rows)]
    for run in shown.scores:
        caption += describe_judging(run)
    grid = table(columns, chain(*blocks.values())).without_empty("delta", "p")
    return grid.console("", 1, "\n".join(caption), shown.unchanged)


def _get_block_title(row: Row) -> str:
    """Return the title of the rows of one task and slice, with the metric if it is the benchmark's
    own."""
    task = f"{row.task} ({row.slice})" if row.slice else row.task
    return task if row.metric == "accuracy" else f"{task}: {row.metric}"


def _make_caption(benchmark_rows: Rows, rows: Rows, counts: Sequence[str]) -> list[str]:
    """Return the caption of the terminal's table, which explains its numbers."""
    facts = []
    for name in ("split", "label_version", "reader"):
        values = chain(*(str(getattr(row, name)).split("; ") for row in rows))
        facts.append(", ".join(filter(None, dict.fromkeys(values))) or "-")
    units = {row.metric: row.unit for row in benchmark_rows if row.point or not row.unit}
    names = [
        name if unit in ("", "sample") else f"{name} (n: {unit}s)" for name, unit in units.items()
    ]
    accuracy = (
        "accuracy: mean score in percent with its 95 % interval;"
        f" {'/'.join(name[0] for name in counts)}: {', '.join(counts)}"
    )
    if any(row.failed and not row.failure for row in rows):
        accuracy += "; answered: accuracy over the answers that neither failed nor were unreadable"
    lines = ["split: {} | labels: {}, as recorded | reader: {}".format(*facts)]
    if benchmark_rows:
        lines.append(f"{', '.join(names)}: the benchmark's own metrics, shown first")
    lines.append(accuracy)
    if any(map(format_clusters, [*benchmark_rows, *rows])):
        lines.append(
            "n (number of clusters): samples that share a picture or a group form one cluster;"
            " intervals are over clusters"
        )
    return lines


def _describe_failures_and_costs(shown: Table, rows: Rows) -> Iterator[str]:
    """Yield the reasons why all answers of a contestant failed, and the tokens and list price of
    each contestant whose model has prices."""
    names = defaultdict[str, list[str]](list)
    for row in rows:
        if row.failure:
            names[row.failure[:MAX_REASON_LENGTH]].append(f"{format_contestant(row)} on {row.task}")
    for reason, failed in names.items():
        yield f"all failed: {format_list(failed, MAX_NAMED_ARMS)}: {reason}"
    totals = shown.where(metric="accuracy", task="micro", slice="")
    priced = [row for row in totals if row.cost is not None]
    for row in priced:
        yield (
            f"{row.contestant}: {row.tokens_in:,} tokens in, {row.tokens_out:,} out, cost"
            f" {format_cost(row.cost)} (list price)"
        )
    if len(priced) > 1:
        yield ("cost: what each would cost alone; a shared or cached reply is paid for only once")


def describe_judging(run: RunScores) -> Iterator[str]:
    """Yield sentences on which judge's verdicts count, how many replies still need a verdict, and
    in how many replies the judge found an answer."""
    yield from run.judged.explain_counting
    for scores in run.points:
        if waiting := int(scores.columns.is_unjudged.sum()):
            replies = format_count(waiting, "reply", "replies")
            yield (
                f"{scores.task}: {replies} still to be scored by a judge: looktwice judge RUN"
                " --model NAME"
            )
    given = Counter[bool]()  # judged replies with (True) and without (False) an answer
    for scores in run.points:
        for words, number in scores.columns.count_by_words().items():
            if words.judge:
                given[words.answer is not None] += number
    if given:
        yield (
            f"judge {run.judged.counting_names}: read"
            f" {format_count(given[True], 'reply', 'replies')},"
            f" and found no answer in {given[False]} more; its tokens are counted separately"
        )
