"""Writes report.html, report.md, report.csv and effects.csv of one or several runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from looktwice.eval.adaptive.tables import saved_races
from looktwice.eval.analysis.agent_looks import look_table, summarize_looks, turn_count_table
from looktwice.eval.analysis.baselines import guess_table, published_table
from looktwice.eval.analysis.complementarity import complementarity_table
from looktwice.eval.analysis.contestants import (
    COMPARISON_NOTE,
    ORACLE_NOTE,
    PAIR_NOTE,
    comparison_table,
    oracle_table,
    pair_table,
)
from looktwice.eval.analysis.factors import factor_table
from looktwice.eval.analysis.fragility_tables import (
    NOTE as FRAGILITY_NOTE,
    flip_table,
    fragility_table,
    rank_table,
    style_table,
)
from looktwice.eval.analysis.looking.contribution import contribution_tables
from looktwice.eval.analysis.looking.measured_and_right import measurement_curves, measurement_table
from looktwice.eval.analysis.looking.routing import risk_table, route_table
from looktwice.eval.analysis.looking.turns import stopping_table, turn_table
from looktwice.eval.analysis.spread import spread_table
from looktwice.eval.analysis.steadiness import (
    DRAW_NOTE,
    ORDER_NOTE,
    POSITION_NOTE,
    draw_table,
    order_table,
    position_table,
)
from looktwice.eval.analysis.sweeps import effect_note, effects_csv, sweep_table
from looktwice.eval.display.score_tables import (
    benchmark_metric_table,
    failure_table,
    overview_table,
    reason_table,
    sort_rows,
    task_table,
    token_table,
)
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.display.text_tables import TextTable, escaped
from looktwice.eval.judging.summary import agreement, judge_table
from looktwice.eval.page.of_runs import Images, RunPage
from looktwice.eval.page.render import page_pieces
from looktwice.eval.psychometrics.crossed import crossed_grids, crossed_tables
from looktwice.eval.psychometrics.thresholds import (
    NOTE as THRESHOLD_NOTE,
    threshold_lines,
    threshold_table,
)
from looktwice.eval.scoring.benchmark_rows import headline_rows
from looktwice.eval.scoring.score import without_collection
from looktwice.eval.scoring.turns import read_turns
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.disk import whole_file, write_file
from looktwice.pipelines.state import Stage

__all__ = ["write_report"]

METHOD = (
    (
        "accuracy is the mean score over the asked samples with ground truth: 1 for right, 0 for"
        " wrong, unreadable or failed; graded tasks have scores between. Accuracy answered is the"
        " mean score of the answers that are right or wrong, coverage the share of asked samples"
        " with a readable answer. An arm of which every answer failed measured nothing: it has no"
        " accuracy, and its cell says why most failed."
    ),
    (
        "What was never asked is not wrong: a planned sample without a record, of a run that is"
        " unfinished, is in no mean and in no n, and a pair or group with such a sample falls out;"
        " `missing` counts the planned draws that have no record."
    ),
    (
        "With several draws the value of a sample is the mean over its draws; intervals and tests"
        " are over samples, and the counts are of draws."
    ),
    (
        "Intervals are 95 % Wilson intervals, for macro the Wilson limits of the tasks combined"
        " (MOVER). They assume that samples are independent of one another."
    ),
    (
        "macro is the unweighted mean over tasks, where a task swept over several variants counts"
        " as one task; micro pools all samples. Both are over the tasks that a contestant was"
        " given; `2 of 3 tasks` marks those that lack some."
    ),
    (
        "delta and p compare with the baseline, which the line `delta: against ...` names, on the"
        " same samples. Samples that failed or are missing on either side are excluded. The"
        " interval is a bootstrap over clusters, the percentiles of 10000 resamples widened for few"
        " clusters (Hesterberg 2015), with half a unit added to each cell (Agresti and Min 2005),"
        " and where no unit differs at least Wilson's limit for none of so many; units that share a"
        " group, else their pictures, are one cluster. p is exact and two-sided: McNemar's test"
        " where each unit is its own cluster, right or wrong; else, as where values are graded or"
        " means over draws, the randomisation test that flips the signs of whole clusters. Every"
        " paired difference on this page has this interval. Corrections and what these units could"
        " show: see the table Against the baseline."
    ),
    (
        "Effect of each factor: of a sweep's levels and of the changes of `each`, on the samples"
        " that none of the arms in question failed or lacks; effects.csv holds the same. The"
        " interval is that of delta, over the samples' mean differences; p a two-sided sign-flip"
        " test over the same (exact up to 13 units that differ, then 10000 drawn flips, and above"
        " 10000 units by the normal limit). Samples of one group or picture are one unit of both."
    ),
    (
        "Why the numbers differ: the first contestant with one factor of the second at a time, on"
        " the samples that every arm has. An effect is what that factor alone changes, with the"
        " interval and p of delta, not corrected; `interaction` is what all factors change beyond"
        " the sum of their effects."
    ),
    (
        "Specialists and MLLMs: a contestant that answered without a single call is a specialist."
        " Compared on the samples that neither failed. `either` is an oracle that always picks the"
        " right one of the two; `by chance` is its expected accuracy if the two were right"
        " independently of each other."
    ),
    (
        "Looks: the answer before a look is the answer that the reader finds in the reply that"
        " requested the look, or in the probe. `not run` counts tool calls that were refused,"
        " failed, repeated or beyond a limit. Tokens per gained point are the additional tokens per"
        " sample for each percentage point of accuracy gained over the baseline, or over the first"
        " answer if there is no baseline."
    ),
    (
        "Turns: the answer after a turn is what the reader finds in the reply that ended it, of a"
        " vote the majority so far, of a chain of thought what it finds in the lines until then."
        " Changes are over samples, with the interval and p of delta; gained and lost count records"
        " with Wilson's interval. A rule that stops early is compared with fixed numbers of turns"
        " that are mixed at random so that they cost as much."
    ),
    (
        "Routing: of the samples, the share with the least confidence is sent on; at random and"
        " oracle send on as many. Area is the mean risk over all coverages (Geifman et al. 2019)."
    ),
    (
        "Measured are the numbers and categories that stages leave (`State.measured`): rows"
        " `measured.NAME` of report.csv, with the t interval of a mean; `--by NAME` slices by a"
        " category, by each number, or by quarters of the numbers. Right and not right are compared"
        " by Welch's t test."
    ),
    (
        "Cost is the list price of all tokens of the contestant's samples: the model's `prices`"
        " times the tokens that the server counted. A reply from the cache is counted at its"
        " original cost."
    ),
    (
        "A judge extracts the answers that the reader cannot read and grades descriptions; it is"
        " then named as the reader. A reply without a verdict of the judge stays unreadable. The"
        " judge's tokens are not counted for the contestants."
    ),
    (
        "less people: points above or below what people reach on the task, as the rows of"
        " `published:` with `people: true` say of the split that was asked; where several name a"
        " task, the first counts."
    ),
    (
        "majority (key) always answers the most frequent key of these samples; chance (level) is"
        " the mean over samples of one over the number of choices; guesser (level), of made scenes,"
        " is what the best guesser reaches who sees all that is in the image, but not what is"
        " marked or asked for."
    ),
    (
        "A benchmark's own metrics are its authors' (or VLMEvalKit's, where the name says so);"
        " their paired tests run on what each metric counts (pairs, images, groups) and are not"
        " corrected. kruskal_* asks whether accuracy depends on a control parameter (Kruskal-Wallis"
        " over its levels): the value is the effect size H/(n - 1), p is the test's."
    ),
)
FACTS = (
    ("split", "split", "not named"),
    ("label_version", "labels", "not named"),
    ("errata", "errata", "none known"),
    ("note", "note", ""),
    ("revision", "revision", ""),
    ("left_out", "left out", ""),
)
"""The facts of a task in a report: the field, its title, and the text shown if it is empty."""


@dataclass(frozen=True)
class ReportTable:
    """A table under its own heading, `facts` and a `note` above it; `wrap` allows line breaks
    inside long words."""

    title: str
    table: TextTable
    wrap: bool = False
    note: str = ""
    facts: tuple[tuple[str, str], ...] = ()


@without_collection()
def write_report(
    runs: Table | Sequence[str | Path],
    out: str | Path,
    images: Images | None = None,
    *,
    reader: Stage | None = None,
    again: bool = True,
) -> Path:
    """Write report.html, report.md and report.csv of a table, or of runs, into `out`; return the
    path of the page.

    Where the runs have a sweep of several factors or `each`, effects.csv beside them holds what
    each change does. `images` returns a sample's own images if the task's data is available;
    without it the page shows what was sent. `reader` reads the replies of runs, in place of their
    own reader; a table is read already. Unless `again`, a page stays that is younger than all
    records and judgements, where every number is as before. Raises RunError.
    """
    scored = runs if isinstance(runs, Table) else score_table(runs, reader)
    folder = Path(out)
    facts, page = _context(scored), folder / "report.html"
    words = {"report.csv": scored.csv, "report.md": _markdown(facts)}
    if not again and _is_current(page, words, scored):
        return page
    write_file(folder / "report.csv", words["report.csv"])
    if sweep_table(scored).rows:
        write_file(folder / "effects.csv", effects_csv(scored))
    else:  # one of an earlier plan would be taken for this one's
        (folder / "effects.csv").unlink(missing_ok=True)
    write_file(folder / "report.md", words["report.md"])
    with whole_file(page) as file:
        pieces = html_page(scored, RunPage(scored.scores, images), facts=facts)
        file.writelines(piece.encode(errors="backslashreplace") for piece in pieces)
    return page


def _is_current(page: Path, words: Mapping[str, str], scored: Table) -> bool:
    """Whether the page and what lies beside it show what would be written now; pictures take most
    of its time."""
    try:
        written = page.stat().st_mtime_ns
        same = all(
            (page.parent / name).read_bytes() == text.encode() for name, text in words.items()
        )
    except FileNotFoundError:
        return False
    read = (
        run.folder.path / name
        for run in scored.scores
        for name in ("records.jsonl", "judged.jsonl")
    )
    return same and all(file.stat().st_mtime_ns < written for file in read if file.exists())


def html_page(
    scored: Table, page: RunPage, *, served: bool = False, facts: Any = None
) -> Iterator[str]:
    """The page of a table's runs, piece by piece: with what fits into a file, or `served` without
    words."""
    facts = facts or _context(scored)
    data = page.data(scored.rows, whole=not served)
    above = [
        ReportTable("Accuracy", facts["overview"]),
        ReportTable("Over all tasks", facts["means"]),
    ]
    tables = [each for each in (*above, *facts["sections"], *facts["tables"]) if each.table.rows]
    tasks = [
        (run, name)
        for run in scored.scores
        for name in dict.fromkeys(arm.point.task for arm in run.points)
    ]
    lines = [
        *data.lines,
        *(curve for run, name in tasks for curve in measurement_curves(run, name)),
    ]
    lines += [chart for run, name in tasks for chart in threshold_lines(run, name)]
    grids = [*data.grids, *crossed_grids(scored.scores, scored.by)]
    said = [*scored.notes, f"Read with: {facts['readers']}", *facts["agreement"]]
    context = {"tables": tables, "method": METHOD, "left_out": facts["left_out"]}
    return page_pieces(
        replace(data, notes=said, lines=lines, grids=grids), served=served, **context
    )


def _context(scored: Table) -> dict[str, Any]:
    tasks = {row.task for row in scored.rows if row.task_name and row.metric == "accuracy"}
    several = len(tasks) > 1  # for a single task the overview already shows them
    means = [row for row in scored.rows if several and not row.task_name and not row.slice]
    return {
        "title": ", ".join(run.name for run in scored.scores),
        "overview": overview_table(scored.rows, headline_rows(scored.scores, scored.rows)),
        "means": task_table(sort_rows(means), full=True),
        "sections": _sections(scored),
        "tables": [table for table in _tables(scored) if table.table.rows],
        "agreement": [
            line
            for run in scored.scores
            for line in (*run.judged.which_counts, *agreement(run.judged.lines))
        ],
        "notes": scored.notes,
        "left_out": [pair for run in scored.scores for pair in _left_out(run)],
        "readers": (
            ", ".join(dict.fromkeys(row.reader for row in scored.rows if row.reader and row.point))
            or "none needed"
        ),
        "method": METHOD,
    }


def _tables(scored: Table) -> list[ReportTable]:
    """The tables after the sections of the tasks, in order; those without rows are left out of the
    report."""
    rows, runs = scored.rows, scored.scores
    looks = [point for run in runs for point in summarize_looks(run)]
    turns = [arm for run in runs for arm in read_turns(run)]
    races, race_note = saved_races(runs)
    zeros = tuple(
        (kind, line) for kind, _, line in (line.partition(": ") for line in scored.unchanged)
    )
    return [
        ReportTable(
            "Against the baseline", comparison_table(rows), True, COMPARISON_NOTE, facts=zeros
        ),
        ReportTable(
            "Effect of each factor", sweep_table(scored), True, effect_note(scored), facts=zeros
        ),
        ReportTable("Why the numbers differ", factor_table(scored), wrap=True),
        ReportTable(
            "How fragile the marker makes it", fragility_table(runs), wrap=True, note=FRAGILITY_NOTE
        ),
        ReportTable("Who would lead under another style", flip_table(runs), wrap=True),
        ReportTable("Ranks under other styles", rank_table(runs), wrap=True),
        ReportTable("Every style and codec", style_table(runs), wrap=True),
        ReportTable("The race", races, wrap=True, note=race_note),
        ReportTable("Thresholds", threshold_table(runs), wrap=True, note=THRESHOLD_NOTE),
        *(ReportTable(title, table) for title, table in crossed_tables(runs, scored.by)),
        ReportTable("The benchmark's own metrics", benchmark_metric_table(rows)),
        ReportTable("What an agent's looks changed", look_table(looks), wrap=True),
        *(
            ReportTable(title, table, True, note)
            for run in runs
            for title, note, table in contribution_tables(run)
        ),
        ReportTable("Accuracy by turns that looked", turn_count_table(looks)),
        ReportTable("What further turns changed", turn_table(turns), wrap=True),
        ReportTable("When to stop", stopping_table(turns), wrap=True),
        ReportTable("Right of what is answered at all", risk_table(runs)),
        ReportTable("Sent on by confidence", route_table(runs), wrap=True),
        ReportTable("What was measured, and being right", measurement_table(runs), wrap=True),
        ReportTable("Spread over variants", spread_table(scored), wrap=True),
        ReportTable("Contestants with one another", pair_table(runs), note=PAIR_NOTE),
        ReportTable("All contestants together", oracle_table(runs), note=ORACLE_NOTE),
        ReportTable("Would the order hold", order_table(runs), note=ORDER_NOTE),
        ReportTable("Draws", draw_table(runs), wrap=True, note=DRAW_NOTE),
        ReportTable("Letters chosen", position_table(runs), note=POSITION_NOTE),
        ReportTable("Slices", task_table([row for row in rows if row.slice], full=True)),
        ReportTable("Why answers are unreadable", reason_table(runs)),
        ReportTable("What failed", failure_table(runs), wrap=True),
        ReportTable("Guesses", guess_table(runs)),
        ReportTable("Verdicts of judges", judge_table(runs), wrap=True),
        ReportTable("Specialists and MLLMs", complementarity_table(runs)),
        ReportTable("Beside what was published", published_table(runs, rows)),
        ReportTable("Tokens and cost", token_table(rows)),
    ]


def _sections(scored: Table) -> list[ReportTable]:
    """A table for each task name of each run, its variants together."""
    sections = []
    for run in scored.scores:
        for name in dict.fromkeys(scores.point.task for scores in run.points):
            variants = [scores for scores in run.points if scores.point.task == name]
            rows = [
                r for r in scored.rows if r.run == run.name and r.task_name == name and not r.slice
            ]
            title = name if len(scored.scores) == 1 else f"{name} ({run.name})"
            facts = tuple(_describe_data([scores.point.facts for scores in variants]))
            sections.append(ReportTable(title, task_table(sort_rows(rows)), facts=facts))
    return sections


def _describe_data(facts: Sequence[Any]) -> list[tuple[str, str]]:
    """Split, labels, errata and other facts of the data, each distinct value once over the task's
    variants."""
    described = []
    for name, title, empty in FACTS:
        values = [value for fact in facts for value in _many(fact.get(name))]
        described.append((title, "; ".join(dict.fromkeys(values)) or empty))
    return [pair for pair in described if pair[1]]


def _many(value: Any) -> list[str]:
    return [] if not value else [value] if isinstance(value, str) else [str(item) for item in value]


def _left_out(run: RunScores) -> list[tuple[str, str]]:
    """Contestants that the configuration left out, and those that were planned and not run yet."""
    left_out = [
        (str(name), str(why)) for name, why in (run.folder.facts.get("left_out") or {}).items()
    ]
    for name in dict.fromkeys(scores.point.contestant for scores in run.points):
        if not any(scores.all for scores in run.points if scores.point.contestant == name):
            left_out.append((name, "planned, and no sample of it was asked yet"))
    return left_out


def _markdown(facts: dict[str, Any]) -> str:
    parts = [f"# Report: {escaped(facts['title'])}", f"Read with: {escaped(facts['readers'])}"]
    parts += ["\n".join(f"- {escaped(line)}" for line in facts["notes"])] if facts["notes"] else []
    parts += ["## Accuracy", facts["overview"].markdown]
    parts += ["## Over all tasks", facts["means"].markdown] if facts["means"].rows else []
    for section in facts["sections"]:
        parts += [f"## {escaped(section.title)}", _listed(section.facts)]
        parts.append(section.table.markdown)
    for table in facts["tables"]:
        above = [_listed(table.facts), table.note]
        parts += [f"## {table.title}", *filter(None, above), table.table.markdown]
    parts += (
        ["\n".join(f"- {escaped(line)}" for line in facts["agreement"])]
        if facts["agreement"]
        else []
    )
    if facts["left_out"]:
        parts += ["## Left out", _listed(facts["left_out"])]
    parts += ["## Method", "\n".join(f"- {line}" for line in facts["method"])]
    return "\n\n".join(parts) + "\n"


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in pairs)
