"""Writes report.html, report.md, report.csv and effects.csv of one or several runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.analysis.analyses import ANALYSES, ReportTable
from looktwice.eval.analysis.factors import effects_csv, sweep_table
from looktwice.eval.analysis.finding import Finding, changes, find
from looktwice.eval.analysis.found_on_page import page_evidence, show_finding
from looktwice.eval.analysis.looking.measured import measurement_curves, part_curves
from looktwice.eval.display.score_tables import overview_table, sort_rows, task_table
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.display.text_tables import TextTable, escaped
from looktwice.eval.judging.summary import agreement
from looktwice.eval.page.of_runs import Images, RunPage
from looktwice.eval.page.render import page_pieces
from looktwice.eval.psychometrics.thresholds import crossed_grids, threshold_lines
from looktwice.eval.scoring.run_rows import headline_rows
from looktwice.eval.scoring.verdict import PointScores
from looktwice.pipelines.disk import whole_file, write_file
from looktwice.pipelines.state import Stage

__all__ = ["write_report"]

METHOD = (
    (
        "What was found: an arm has a row where it differs in one setting from the baseline of its"
        " task, or is another contestant at the baseline's setting. A difference is sure where its"
        " p is below 5 % after Holm's correction over the comparisons on single tasks; where"
        " contestants share several tasks, below 2.5 %, as are those over all tasks, which are"
        " corrected by themselves. An interaction is told where some difference is sure, and its"
        " own p is below 5 % after Holm's correction over the effects."
    ),
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
    folder, report = Path(out), Report(scored)
    page, texts = folder / "report.html", {"report.csv": scored.csv, "report.md": report.markdown}
    if not again and _is_current(page, texts, scored):
        return page
    if sweep_table(scored).rows:
        texts["effects.csv"] = effects_csv(scored)
    else:  # one of an earlier plan would be taken for this one's
        (folder / "effects.csv").unlink(missing_ok=True)
    for name, text in texts.items():
        write_file(folder / name, text)
    with whole_file(page) as file:
        pieces = html_page(report, RunPage(scored.scores, images))
        file.writelines(piece.encode(errors="backslashreplace") for piece in pieces)
    return page


def _is_current(page: Path, texts: dict[str, str], scored: Table) -> bool:
    """Whether the page and what lies beside it show what would be written now; pictures take most
    of its time."""
    try:
        written = page.stat().st_mtime_ns
        same = all((page.parent / n).read_bytes() == text.encode() for n, text in texts.items())
    except FileNotFoundError:
        return False
    for run in scored.scores:
        for name in ("records.jsonl", "judged.jsonl"):
            file = run.folder.path / name
            same = same and not (file.exists() and file.stat().st_mtime_ns >= written)
    return same


def html_page(report: Report, page: RunPage, *, served: bool = False) -> Iterator[str]:
    """The page of a report, piece by piece: with what fits into a file, or `served` without
    words."""
    scored = report.scored
    evidence = page_evidence(report.finding, page)
    first = evidence.samples if evidence else ()
    data = page.data(scored.rows, whole=not served, first=first)
    data = show_finding(data, report.finding, page)
    lines = [*data.lines]
    for draw in (measurement_curves, part_curves, threshold_lines):
        for run in scored.scores:
            for task in dict.fromkeys(arm.point.task for arm in run.points):
                lines += draw(run, task)
    data = replace(
        data,
        notes=[*scored.notes, f"Read with: {report.readers}", *report.agreement],
        lines=lines,
        evidence=evidence,
        grids=[*data.grids, *crossed_grids(scored.scores, scored.by)],
    )
    above = (ReportTable("Accuracy", report.overview), ReportTable("Over all tasks", report.means))
    tables = [part for part in (*above, *report.sections, *report.tables) if part.table.rows]
    return page_pieces(data, served=served, tables=tables, method=METHOD, left_out=report.left_out)


@dataclass(frozen=True)
class Report:
    """What a report says of scored runs, as page and Markdown show it."""

    scored: Table

    @cached_property
    def finding(self) -> Finding:
        """What was found, in rows and sentences."""
        return find(self.scored)

    @cached_property
    def overview(self) -> TextTable:
        """Contestants by tasks."""
        return overview_table(self.scored.rows, headline_rows(self.scored.scores, self.scored.rows))

    @cached_property
    def means(self) -> TextTable:
        """Macro, micro and totals; none of a single task, where the overview shows them."""
        tasks = {r.task for r in self.scored.rows if r.task_name and r.metric == "accuracy"}
        means = [row for row in self.scored.rows if not row.task_name and not row.slice]
        return task_table(sort_rows(means if len(tasks) > 1 else []), full=True)

    @cached_property
    def sections(self) -> list[ReportTable]:
        """A table for each task name of each run, its variants together."""
        sections = []
        for run in self.scored.scores:
            tasks: dict[str, list[PointScores]] = {}
            for scores in run.points:
                tasks.setdefault(scores.point.task, []).append(scores)
            for name, variants in tasks.items():
                rows = [
                    row for row in self.scored.rows if (row.run, row.task_name) == (run.name, name)
                ]
                table = task_table(sort_rows([row for row in rows if not row.slice]))
                title = name if len(self.scored.scores) == 1 else f"{name} ({run.name})"
                sections.append(ReportTable(title, table, facts=_describe_data(variants)))
        return sections

    @cached_property
    def tables(self) -> list[ReportTable]:
        """The tables of all analyses that have something to say."""
        return [part for analysis in ANALYSES for part in analysis.tables(self.scored)]

    @property
    def readers(self) -> str:
        """Who read the replies."""
        names = dict.fromkeys(row.reader for row in self.scored.rows if row.reader and row.point)
        return ", ".join(names) or "none needed"

    @cached_property
    def agreement(self) -> list[str]:
        """Which judge counts, and how far judges agree."""
        lines = []
        for run in self.scored.scores:
            lines += [*run.judged.which_counts, *agreement(run.judged.lines)]
        return lines

    @cached_property
    def left_out(self) -> list[tuple[str, str]]:
        """Contestants that the configuration left out, and those that were planned and not run
        yet."""
        pairs = []
        for run in self.scored.scores:
            for name, why in (run.folder.facts.get("left_out") or {}).items():
                pairs.append((str(name), str(why)))
            asked = {scores.point.contestant for scores in run.points if scores.all}
            for name in dict.fromkeys(scores.point.contestant for scores in run.points):
                if name not in asked:
                    pairs.append((name, "planned, and no sample of it was asked yet"))
        return pairs

    @property
    def markdown(self) -> str:
        """The report as Markdown."""
        title = ", ".join(run.name for run in self.scored.scores)
        parts = [f"# Report: {escaped(title)}", _bullets(self.finding.sentences)]
        for task in self.finding.tasks[:1]:
            parts += [f"**{escaped(task.task)}, one change at a time**", changes(task).markdown]
        parts += ["## How it was read", f"Read with: {escaped(self.readers)}"]
        parts += [_bullets(self.scored.notes), "## Accuracy", self.overview.markdown]
        if self.means.rows:
            parts += ["## Over all tasks", self.means.markdown]
        for section in self.sections:
            parts += [f"## {escaped(section.title)}", *_below_title(section)]
        for table in self.tables:
            parts += [f"## {table.title}", *_below_title(table)]
        parts.append(_bullets(self.agreement))
        if self.left_out:
            parts += ["## Left out", _facts(self.left_out)]
        parts += ["## Method", "\n".join(f"- {line}" for line in METHOD)]
        return "\n\n".join(filter(None, parts)) + "\n"


def _describe_data(variants: Sequence[PointScores]) -> tuple[tuple[str, str], ...]:
    """Split, labels, errata and other facts of the data, each distinct value once over the task's
    variants."""
    described = []
    for name, title, empty in FACTS:
        values: dict[str, None] = {}
        for scores in variants:
            fact: Any = scores.point.facts.get(name) or ()
            values |= dict.fromkeys(map(str, [fact] if isinstance(fact, str) else fact))
        values.pop("", None)
        if shown := "; ".join(values) or empty:
            described.append((title, shown))
    return tuple(described)


def _below_title(part: ReportTable) -> Iterator[str]:
    yield from (_facts(part.facts), part.note, part.table.markdown)


def _facts(pairs: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in pairs)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)
