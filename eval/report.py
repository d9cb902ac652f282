"""Writes report.html, report.md, report.csv and effects.csv of one or several runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.analysis.analyses import ReportTable, find_analyses
from looktwice.eval.analysis.finding import Finding, TaskFinding, change_table, find
from looktwice.eval.analysis.one_change import OneChangeStudy
from looktwice.eval.display.score_tables import overview_table, sort_rows, task_table
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.display.text_tables import escape_markdown
from looktwice.eval.page.data import PageChange, PageContestant, PageEvidence, PageFinding
from looktwice.eval.page.pairs import ALL_TASKS
from looktwice.eval.page.render import read_page_file, stream_page
from looktwice.eval.page.run_page import ImageLoader, RunPage
from looktwice.eval.scoring.run_rows import list_headline_rows
from looktwice.eval.scoring.score import pause_collection
from looktwice.eval.scoring.verdict import PointScores
from looktwice.pipelines.counted import format_count, format_list
from looktwice.pipelines.disk import open_atomic, write_file
from looktwice.pipelines.state import Stage

__all__ = ["write_report"]

TASK_FACTS = (
    ("split", "split", "not named"),
    ("label_version", "labels", "not named"),
    ("errata", "errata", "none known"),
    ("note", "note", ""),
    ("revision", "revision", ""),
    ("left_out", "left out", ""),
)
"""The facts of a task in a report: the field, its title, and the text shown if it is empty."""


@pause_collection()
def write_report(
    runs: Table | Sequence[str | Path],
    out: str | Path,
    images: ImageLoader | None = None,
    *,
    reader: Stage | None = None,
    again: bool = True,
) -> Path:
    """Write report.html, report.md and report.csv of a table or of runs into `out`; return the path
    of the page.

    If the runs sweep several factors or have `each`, effects.csv holds the effect of each change.
    `images` returns a sample's own images if the task's data is available; without it the page
    shows the images that were sent. `reader` replaces the reader of the runs, but not of a table.
    If `again` is False, keep a page that is newer than all records and judgements if no number
    changed. Raises RunError.
    """
    scored = runs if isinstance(runs, Table) else score_table(runs, reader)
    folder, report = Path(out), Report(scored)
    page = folder / "report.html"
    may_keep = not again and _is_newer(page, scored)
    texts = {"report.csv": scored.csv, "report.md": report.markdown}
    if may_keep and _are_up_to_date(folder, texts):
        return page
    if effects := _format_effects(scored):
        texts["effects.csv"] = effects
    else:  # a file of an earlier plan would be mistaken for this one's
        (folder / "effects.csv").unlink(missing_ok=True)
    for name, text in texts.items():
        write_file(folder / name, text)
    with open_atomic(page) as file:
        pieces = render_report_page(report, RunPage(scored.scores, images))
        file.writelines(piece.encode(errors="backslashreplace") for piece in pieces)
    return page


def _format_effects(scored: Table) -> str:
    """Format the effect of each change as CSV; empty if the runs have no sweep and no `each`."""
    if not any(run.config.get("sweep") or run.config.get("each") for run in scored.scores):
        return ""
    from looktwice.eval.analysis.factors import effects_csv, sweep_table

    return effects_csv(scored) if sweep_table(scored).rows else ""


def _is_newer(page: Path, scored: Table) -> bool:
    """Return whether the page was written after all records and judgements."""
    if not page.exists():
        return False
    folders = [run.folder.path for run in scored.scores]
    files = [folder / name for folder in folders for name in ("records.jsonl", "judged.jsonl")]
    written = page.stat().st_mtime_ns
    return all(file.stat().st_mtime_ns < written for file in files if file.exists())


def _are_up_to_date(folder: Path, texts: Mapping[str, str]) -> bool:
    """Return whether these files exist with exactly these texts."""
    try:
        return all((folder / name).read_bytes() == text.encode() for name, text in texts.items())
    except FileNotFoundError:
        return False


def render_report_page(report: Report, page: RunPage, *, served: bool = False) -> Iterator[str]:
    """Yield the page of a report in pieces: with the texts that fit into a file, or, if `served`,
    without texts."""
    scored, finding = report.scored, report.finding
    evidence = _locate_evidence(finding, page)
    first = evidence.samples if evidence else ()
    data = page.make_data(scored.rows, with_texts=not served, first=first)
    lines = [*data.lines]
    grids = [*data.grids]
    for part in find_analyses(scored):
        lines += part.curves(scored)
        grids += part.maps(scored)
    data = replace(
        data,
        contestants=_shorten_labels(scored, page),
        notes=[*scored.notes, f"Read with: {report.readers}", *report.agreement],
        lines=lines,
        finding=[_locate_rows(task, page) for task in finding.tasks if task.rows],
        sentences=finding.sentences,
        about=" · ".join(_describe_runs(page)),
        evidence=evidence,
        grids=grids,
    )
    tables = [part for part in report.tables if part.table.rows]
    return stream_page(
        data, served=served, tables=tables, method=report.method, left_out=report.left_out
    )


def _shorten_labels(scored: Table, page: RunPage) -> list[PageContestant]:
    """Return the page's contestants, named as in the finding: "radius 9" instead of
    "marked [mark.radius=9]"."""
    labels = dict[tuple[int, str], str]()
    for number, run in enumerate(page.runs):
        for name, label in OneChangeStudy(scored, run).short_labels.items():
            labels[number, page.make_label(number, name)] = page.make_label(number, label)
    named = list[PageContestant]()
    for key, contestant in page.contestants.items():
        facts = dict(contestant.facts)
        if (label := labels.get(key, key[1])) != key[1]:
            facts["in tables"] = key[1]
        named.append(replace(contestant, label=label, facts=facts))
    return named


def _locate_evidence(finding: Finding, page: RunPage) -> PageEvidence | None:
    """Return the flipped samples of a finding by their numbers on the page, or None if no effect is
    significant."""
    if not finding.flips:
        return None
    first = finding.flips[0]
    names = first.baseline, first.arm
    number = next(n for n, run in enumerate(page.runs) if run.by_id.keys() >= {*names})
    base, arm = (page.runs[number].by_id[name] for name in names)
    rival = page.get_contestant_number(number, base.contestant)
    contestant = page.get_contestant_number(number, arm.contestant)
    samples = [page.get_sample_number(arm, flip.sample) for flip in finding.flips]
    return PageEvidence(contestant, rival, samples, finding.flip_selection, first.is_gained)


def _locate_rows(task: TaskFinding, page: RunPage) -> PageFinding:
    """Return the finding on a task, with contestants and task by their numbers on the page."""
    run, tasks = [scored.name for scored in page.runs].index(task.run), [*page.tasks]
    rows, base = list[PageChange](), None
    for row in task.rows:
        who = page.get_contestant_number(run, row.contestant)
        numbers = row.accuracy, row.difference, row.is_significant, row.failure
        rows.append(
            PageChange(row.label, who, *numbers, row.answered_accuracy, row.abstained_share)
        )
        base = who if row.is_baseline else base
    where = tasks.index(task.task) if task.task in tasks else ALL_TASKS
    title = task.caption if len(page.runs) < 2 else f"{task.caption} ({task.run})"
    return PageFinding(title, where, base, rows, task.chance, task.is_one_change)


def _describe_runs(page: RunPage) -> Iterator[str]:
    """Yield the models, the number of answers, the date of the first run, and whether all runs are
    complete."""
    models = dict[str, None]()
    for run in page.runs:
        for arm in run.points:
            if node := arm.point.spec.get("model"):
                models[str(node.get("model") or str(node.get("use")).rpartition(".")[2])] = None
    if models:
        yield format_list([*models], 3)
    yield format_count(sum(map(len, page.answers.values())), "answer")
    facts = [run.folder.facts for run in page.runs]
    if started := str(facts[0].get("started") or ""):
        day = datetime.fromisoformat(started)
        yield f"{day.day} {day:%b %Y}"
    yield "complete" if all(fact.get("finished") for fact in facts) else "unfinished"


@dataclass(frozen=True)
class Report:
    """The contents of a report on scored runs, as the page and the Markdown show them."""

    scored: Table

    @cached_property
    def finding(self) -> Finding:
        """The findings of the runs, as rows and sentences."""
        return find(self.scored)

    @cached_property
    def tables(self) -> list[ReportTable]:
        """The tables: contestants by tasks; macro, micro and totals over several tasks; one for
        each task of each run, all variants together; and those of all analyses that apply."""
        rows = [row for row in self.scored.rows if not row.slice]
        own = list_headline_rows(self.scored.scores, self.scored.rows)
        tables = [ReportTable("Accuracy", overview_table(self.scored.rows, own))]
        if len({row.task for row in rows if row.task_name and row.metric == "accuracy"}) > 1:
            means = sort_rows([row for row in rows if not row.task_name])
            tables.append(ReportTable("Over all tasks", task_table(means, full=True)))
        for run in self.scored.scores:
            for name in dict.fromkeys(arm.point.task for arm in run.points):
                of_task = [row for row in rows if (row.run, row.task_name) == (run.name, name)]
                title = name if len(self.scored.scores) == 1 else f"{name} ({run.name})"
                facts = _describe_data([arm for arm in run.points if arm.point.task == name])
                shown = task_table(sort_rows(of_task))
                tables.append(ReportTable(title, shown, facts=facts))
        return tables + [
            part for analysis in find_analyses(self.scored) for part in analysis.tables(self.scored)
        ]

    @property
    def method(self) -> list[str]:
        """The paragraphs that explain how the numbers were computed."""
        paragraphs = read_page_file("method.txt").split("\n\n")
        return [" ".join(paragraph.split()) for paragraph in paragraphs]

    @property
    def readers(self) -> str:
        """The names of the readers that read the replies."""
        names = dict.fromkeys(row.reader for row in self.scored.rows if row.reader and row.point)
        return ", ".join(names) or "none needed"

    @cached_property
    def agreement(self) -> list[str]:
        """Sentences on which judge's verdicts count, and on the agreement of judges."""
        lines = []
        for run in self.scored.scores:
            if run.judged.lines:
                from looktwice.eval.analysis.judges import describe_agreement

                lines += [*run.judged.explain_counting, *describe_agreement(run.judged.lines)]
        return lines

    @cached_property
    def left_out(self) -> list[tuple[str, str]]:
        """Contestants that the configuration left out or that have not run yet, with the reason."""
        pairs = []
        for run in self.scored.scores:
            for name, why in (run.folder.facts.get("left_out") or {}).items():
                pairs.append((str(name), str(why)))
            asked = {scores.point.contestant for scores in run.points if len(scores.columns)}
            for name in dict.fromkeys(scores.point.contestant for scores in run.points):
                if name not in asked:
                    pairs.append((name, "planned, but no sample has been asked yet"))
        return pairs

    @property
    def markdown(self) -> str:
        """The report as Markdown."""
        title = ", ".join(run.name for run in self.scored.scores)
        parts = [f"# Report: {escape_markdown(title)}", _format_bullets(self.finding.sentences)]
        for task in self.finding.shown_tasks:
            parts += [f"**{escape_markdown(task.caption)}**", change_table(task).markdown]
        parts += ["## How replies were read", f"Read with: {escape_markdown(self.readers)}"]
        parts.append(_format_bullets(self.scored.notes))
        for part in self.tables:
            parts += [f"## {escape_markdown(part.title)}", _list_facts(part.facts), part.note]
            parts.append(part.table.markdown)
        parts.append(_format_bullets(self.agreement))
        if self.left_out:
            parts += ["## Left out", _list_facts(self.left_out)]
        parts += ["## Method", "\n".join(f"- {line}" for line in self.method)]
        return "\n\n".join(filter(None, parts)) + "\n"


def _describe_data(variants: Sequence[PointScores]) -> tuple[tuple[str, str], ...]:
    """Return the split, labels, errata and other facts of a task's data, with each distinct value
    of its variants once."""
    described = []
    for name, title, empty in TASK_FACTS:
        values: dict[str, None] = {}
        for scores in variants:
            fact: Any = scores.point.facts.get(name) or ()
            values |= dict.fromkeys(map(str, [fact] if isinstance(fact, str) else fact))
        values.pop("", None)
        if shown := "; ".join(values) or empty:
            described.append((title, shown))
    return tuple(described)


def _list_facts(pairs: Sequence[tuple[str, str]]) -> str:
    return "\n".join(
        f"- {escape_markdown(name)}: {escape_markdown(value)}" for name, value in pairs
    )


def _format_bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(line)}" for line in lines)
