"""The output of a comparison of logs: tables for the terminal and for compare.md, the HTML page,
and the CSV files next to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from looktwice.eval.display.printable import make_csv_cell
from looktwice.eval.display.score_tables import VERSUS_PEOPLE_HEADER
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    format_p,
    nonzero_cell,
    percent,
    percentage_points,
    table,
    text,
)
from looktwice.eval.page.conversations import THUMBNAIL_SIDE_AND_QUALITY
from looktwice.eval.page.data import (
    PageAnswer,
    PageContestant,
    PageData,
    PagePicture,
    PageSample,
    PageTask,
    PageTurn,
)
from looktwice.eval.page.render import render_page
from looktwice.eval.statistics.intervals import Estimate
from looktwice.extras.logs.compare import ALL_TASKS, Contrast, LogComparison, explain_unmatched
from looktwice.extras.logs.log import Cells, Log, find_doubts
from looktwice.extras.logs.scorers import describe_scorer_mismatch, name_scorers
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import open_atomic, write_file
from looktwice.pipelines.picture import PictureError, make_thumbnail_url

if TYPE_CHECKING:
    import pandas

MAX_PAGE_SAMPLES = 20_000
"""The maximum number of samples for which an HTML page is written; the other files are always
written."""
MAX_REPLIES, MAX_THUMBNAILS, MAX_TURNS = 2_000, 300, 20
"""The limits of a page: the samples with replies (flipped ones first), the thumbnails, and the
turns per sample."""
METHOD_NOTE = (
    "Differences are paired over the samples that both logs hold; their 95 % confidence intervals"
    " are bootstrapped over clusters (a sample's group, else its pictures, else the sample itself)."
    " p is from the exact McNemar test, or from sign flips of clusters if values are graded or"
    " samples share a cluster. p (Holm) is corrected over the lines of all tasks together, or over"
    " those of single tasks. An unreadable reply counts as 0; a sample that failed in either log is"
    " excluded. `detectable` is the smallest difference that n samples show with 80 % power."
)
CSV_COLUMNS = (
    "contestant",
    "baseline",
    "task",
    "value",
    "baseline_value",
    "difference",
    "low",
    "high",
    "p",
    "p_holm",
    "n",
    "clusters",
    "better",
    "worse",
    "fell_out",
    "detectable",
    "test",
    "people",
    "scorer",
)
"""The columns of compare.csv; shares lie in 0..1 and differences in -1..1."""


def _format_interval(difference: Estimate) -> str:
    return f"[{percentage_points(difference.low)}, {percentage_points(difference.high)}]"


TASK_COLUMN: Column[Contrast] = Column("task", "task", text)
RIGHT_COLUMN: Column[Contrast] = Column("right %", "value", percent)
DIFFERENCE_COLUMN: Column[Contrast] = Column("difference", "paired.value", percentage_points)
INTERVAL_COLUMN: Column[Contrast] = Column("95 % interval", "paired", _format_interval)
SAMPLES_COLUMN: Column[Contrast] = Column("n", "paired.n")
PEOPLE_COLUMN: Column[Contrast] = Column(
    VERSUS_PEOPLE_HEADER,
    lambda c: None if c.people is None else c.value - c.people,
    percentage_points,
)


def build_contrast_table(contrasts: Sequence[Contrast]) -> TextTable:
    """Build a table with a row per contrast; values are in percent, differences in points."""
    columns: Columns[Contrast] = (
        Column("contestant", "contestant", text),
        Column("against", "baseline", text),
        TASK_COLUMN,
        RIGHT_COLUMN,
        Column("against %", "baseline_value", percent),
        DIFFERENCE_COLUMN,
        INTERVAL_COLUMN,
        Column("p", "paired.p", format_p),
        Column("p\n(Holm)", "p_holm", format_p),
        SAMPLES_COLUMN,
        Column("clusters", lambda c: c.paired.clusters if c.paired.clusters < c.paired.n else None),
        Column("better", "paired.better"),
        Column("worse", "paired.worse"),
        Column("excluded", "fell_out", nonzero_cell),
        Column("detectable", "paired.detectable", percent),
        Column("test", "paired.test"),
        PEOPLE_COLUMN,
    )
    return table(columns, contrasts).without_empty()


def build_console_table(contrasts: Sequence[Contrast]) -> TextTable:
    """Build a shorter table for a terminal of 80 columns."""
    columns: Columns[Contrast] = (
        Column("pair", lambda c: f"{c.contestant} against {c.baseline}", text),
        TASK_COLUMN,
        RIGHT_COLUMN,
        DIFFERENCE_COLUMN,
        INTERVAL_COLUMN,
        Column("p (Holm)", "p_holm", format_p),
        SAMPLES_COLUMN,
        Column("flips\n+/-", lambda c: f"{c.paired.better}/{c.paired.worse}"),
        PEOPLE_COLUMN,
    )
    return table(columns, contrasts).without_empty()


def summarize_comparison(comparison: LogComparison) -> Iterator[str]:
    """Yield sentences about each log: its result compared with the baseline, how its samples were
    matched, and which samples have no match; and a last sentence with the number of comparisons
    that p is corrected for."""
    base = comparison.logs[0]
    for log in comparison.logs:
        if by := log.reader_name or name_scorers(log):
            yield f"{log.name}: scored by {by}"
        yield from find_doubts(log)
    overall = {
        c.contestant: c
        for c in comparison.contrasts
        if (c.baseline, c.task) == (base.name, ALL_TASKS)
    }
    for number, matching in enumerate(comparison.matchings, 1):
        log = comparison.logs[number]
        if log.name not in overall:
            yield f"{log.name}: {_describe_no_contrast(comparison, number)}"
        else:
            yield _describe_contrast(overall[log.name], comparison.count_same_replies(number))
        if matching.places:
            ways = ", ".join(f"{count} by {by}" for by, count in matching.match_counts.items())
            yield f"  matched: {ways}"
        yield from _describe_missing_values(comparison, number)
        if refused := matching.refused_places:
            names = list_some_names(base.units["sample"].loc[list(refused)])
            yield f"  excluded: {format_count(len(refused), 'sample')} whose keys differ ({names})"
        alone = sorted(set(matching.unmatched_in_base) - set(matching.refused_places))
        for own, rival, places in ((base, log, alone), (log, base, matching.unmatched_in_log)):
            if places:
                names = list_some_names(own.units["sample"].loc[list(places)])
                reasons = explain_unmatched(own.whole.units, rival.whole.units, places)
                why = Counter(reasons).most_common(1)[0][0]
                alone_in = f"only in {own.name}, not in {rival.name}"
                yield f"  {alone_in}: {len(places)} ({names}); most often: {why}"
    yield from _describe_correction(comparison.contrasts)


def _describe_correction(contrasts: Sequence[Contrast]) -> Iterator[str]:
    """Yield a line with the number of comparisons that Holm's correction covers: those in the
    table."""
    tested = [contrast for contrast in contrasts if contrast.paired.p is not None]
    over_all = sum(contrast.task == ALL_TASKS for contrast in tested)
    counts = {"over all samples": over_all, "on single tasks": len(tested) - over_all}
    if len(tested) > 1:
        kinds = [f"{format_count(n, 'comparison')} {kind}" for kind, n in counts.items() if n]
        listed = ", and separately over the ".join(kinds)
        yield f"p (Holm) is corrected over the {listed}; to compare fewer logs, add --only NAME"


def _describe_no_contrast(comparison: LogComparison, number: int) -> str:
    base, log = comparison.logs[0], comparison.logs[number]
    if comparison.scored_differently[:, number].any():
        return describe_scorer_mismatch(base, log)
    if comparison.matchings[number - 1].places:
        return "no sample has a value in both logs"
    return f"it shares no sample with {base.name}, and is not compared with it"


def _describe_missing_values(comparison: LogComparison, number: int) -> Iterator[str]:
    """Yield lines with the numbers of matched samples that have no value in the baseline or in a
    log."""
    base, log = comparison.logs[0], comparison.logs[number]
    matched = comparison.units[number]["sample"].notna().to_numpy()
    apart = comparison.scored_differently[:, number]
    if count := int(apart.sum()):
        yield f"  excluded: {format_count(count, 'sample')} graded by another scorer in {log.name}"
    matched = matched & ~apart
    lacking = np.isnan(comparison.values[:, [0, number]]) & matched[:, np.newaxis]
    if places := np.flatnonzero(lacking.any(axis=1)).tolist():
        counts = zip((base, log), lacking.sum(axis=0), strict=True)
        sides = [f"{count} in {side.name}" for side, count in counts if count]
        names = list_some_names(base.units["sample"].iloc[places])
        yield (
            f"  excluded: {format_count(len(places), 'sample')}, failed or not scored:"
            f" {', '.join(sides)} ({names})"
        )


def _describe_contrast(contrast: Contrast, same: int) -> str:
    """Describe the result of a contrast in a sentence.

    The sentence makes no claim about the contestants if most flips (`same` of them) are on
    identical replies.
    """
    paired = contrast.paired
    result = "as good as"
    if abs(paired.value) > 1e-9:
        word = "better" if paired.value > 0 else "worse"
        result = f"{100 * abs(paired.value):.1f} points {word} than"
    samples = format_count(paired.n, "sample")
    if paired.clusters == 1 < paired.n:
        samples += " of one picture or group, too few for an interval"
    sure = "significant" if contrast.p_holm < 0.05 else "not significant"
    sure += f" (p {format_p(contrast.p_holm)} after Holm's correction)"
    if 2 * same > (flips := paired.better + paired.worse):
        sure = f"no claim: {same} of {flips} flips are on identical replies, so the scoring differs"
    return (
        f"{contrast.contestant} is {result} {contrast.baseline} {_format_interval(paired)},"
        f" {sure} on"
        f" {samples}; {paired.better} better, {paired.worse} worse"
    )


def list_some_names(names: Iterable[str]) -> str:
    """List up to four names, or the first three and an ellipsis."""
    first = list(islice(names, 4))
    return ", ".join([*first[:3], "..."] if len(first) > 3 else first)


def write_comparison(comparison: LogComparison, folder: Path) -> list[Path]:
    """Write compare.html, compare.md, compare.csv, items.csv and unmatched.csv, and return their
    paths.

    The page is left out if there are more than MAX_PAGE_SAMPLES samples, which no browser would
    handle. Raises OSError.
    """
    lines = [line.strip() for line in summarize_comparison(comparison)]
    shown, bullets = (
        build_contrast_table(comparison.contrasts),
        "\n".join(f"- {line}" for line in lines),
    )
    markdown = f"# Logs compared\n\n{bullets}\n\n{shown.markdown}\n\n{METHOD_NOTE}\n"
    fields = []
    for contrast in comparison.contrasts:
        difference = {"difference": contrast.paired.value}
        fields.append(vars(contrast.paired) | vars(contrast) | difference)
    write_file(folder / "compare.md", markdown)
    paths = [
        folder / "compare.md",
        write_csv(folder / "compare.csv", fields, CSV_COLUMNS),
        write_csv(folder / "items.csv", comparison.items),
        write_csv(folder / "unmatched.csv", comparison.unmatched),
    ]
    if len(comparison.values) <= MAX_PAGE_SAMPLES:
        section = {"title": "Logs compared", "table": shown, "note": "", "facts": (), "wrap": False}
        page = make_compare_page(comparison)
        html = render_page(page, summary=lines, tables=[section], method=[METHOD_NOTE], left_out={})
        paths.insert(0, folder / "compare.html")
        write_file(paths[0], html)
    return paths


def write_csv(
    path: Path,
    rows: Sequence[Mapping[str, object]] | pandas.DataFrame,
    columns: Sequence[str] | None = None,
) -> Path:
    """Write rows as CSV, in which formulas are escaped so that no spreadsheet evaluates them;
    return the path. Raises OSError."""
    import pandas

    frame = pandas.DataFrame(rows, columns=columns)
    for name in frame.columns:
        if frame[name].dtype.kind not in "fib":
            frame[name] = frame[name].map(
                {cell: make_csv_cell(cell) for cell in frame[name].unique()}
            )
    with open_atomic(path) as file:
        frame.rename(columns=make_csv_cell).to_csv(file, index=False, errors="backslashreplace")
    return path


def make_compare_page(comparison: LogComparison) -> PageData:
    """Build the data of the page: the baseline's samples, and each log's answers to the matched
    samples.

    Replies are included for up to MAX_REPLIES samples, flipped ones first; flipped samples also
    include the messages and pictures that a run holds.
    """
    base, values = comparison.logs[0], comparison.values
    tasks = list(dict.fromkeys(base.units["task"]))
    samples = []
    for row, cluster in zip(base.units.to_dict("records"), base.clusters, strict=True):
        key = None if row["verdict"] == "hidden" else row["key"]
        about = row["sample"], row["question"], row["choices"], key
        samples.append(PageSample(tasks.index(row["task"]), *about, group=cluster))
    flipped = np.any(np.abs(values - values[:, :1]) > 0, axis=1).tolist()
    worded = frozenset(np.argsort(np.logical_not(flipped), kind="stable")[:MAX_REPLIES].tolist())
    answers = dict[tuple[int, int], list[PageAnswer]]()
    thumbnails = dict[str, str]()
    for who, log in enumerate(comparison.logs):
        units = comparison.units[who]
        numbers = {ids: n for n, ids in enumerate(zip(units["task"], units["sample"], strict=True))}
        for row in log.whole.rows.to_dict("records"):
            sample = numbers.get((row["task"], row["sample"]))
            if sample is not None:
                shown = (
                    _list_turns(row, log, thumbnails)
                    if sample in worded and flipped[sample]
                    else ()
                )
                # logs give input and output tokens as one number, so neither is set
                value, cost = (row[n] if row[n] == row[n] else None for n in ("value", "cost"))
                verdict = row["verdict"] or ("right" if value == 1 else "wrong")
                words = row["answer"], "", row["reply"] if sample in worded else "", tuple(shown)
                answer = PageAnswer(verdict, value or 0.0, *words, cost=cost)
                answers.setdefault((who, sample), []).append(answer)
    return PageData(
        f"compare: {', '.join(log.name for log in comparison.logs)}",
        [
            PageContestant(log.name, log.source, not who, {"log": log.source})
            for who, log in enumerate(comparison.logs)
        ],
        [PageTask(task or "task") for task in tasks],
        samples,
        answers,
        thumbnails,
        detailed=None if len(worded) == len(samples) else worded,
    )


def _list_turns(row: Cells, log: Log, thumbnails: dict[str, str]) -> Iterator[PageTurn]:
    for message in log.get_messages(row)[:MAX_TURNS]:
        parts = list[str | PagePicture]()
        for part in message.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            sha = part.picture.sha
            parts.append(PagePicture(sha))
            if sha not in thumbnails and len(thumbnails) < MAX_THUMBNAILS:
                with suppress(PictureError):
                    thumbnails[sha] = make_thumbnail_url(part.picture, *THUMBNAIL_SIDE_AND_QUALITY)
        yield PageTurn(message.role, tuple(parts))
