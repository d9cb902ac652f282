"""How a comparison of logs is told: tables for the terminal and for compare.md, and the files
beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from looktwice.eval.display.printable import csv_cell
from looktwice.eval.display.score_tables import LESS_PEOPLE
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.logs.compare import ALL, Contrast, LogComparison, contrast_row
from looktwice.eval.logs.compare_page import MOST_SAMPLES, compare_page
from looktwice.eval.logs.standings import Standings
from looktwice.eval.page.render import render_page
from looktwice.pipelines.counted import counted
from looktwice.pipelines.disk import whole_file, write_file

if TYPE_CHECKING:
    import pandas

METHOD = (
    "Differences are paired over the samples that both logs hold; their 95 % intervals are"
    " bootstrapped over clusters (the group of a sample, else its pictures, else itself). p is the"
    " exact McNemar test, or sign flips of clusters where values are graded or samples share one; p"
    " (Holm) is corrected over the lines of all tasks, or those of single ones. An unreadable reply"
    " counts as 0; a sample that failed on either side fell out. `could show` is the smallest"
    " difference that so many samples show with 80 % power."
)


def contrast_table(contrasts: Sequence[Contrast]) -> TextTable:
    """A line per contrast; values in percent, differences in points."""
    header = (
        "contestant",
        "against",
        "task",
        "right %",
        "against %",
        "difference",
        "95 % interval",
        "p",
        "p\n(Holm)",
        "n",
        "clusters",
        "better",
        "worse",
        "fell out",
        "could show",
        "test",
        LESS_PEOPLE,
    )
    return TextTable(header, tuple(_line(contrast) for contrast in contrasts), 3).without_empty()


def console_table(contrasts: Sequence[Contrast]) -> TextTable:
    """The same for a terminal of 80 columns: the pair of contestants, and of its tasks what says
    most."""
    header = (
        "pair",
        "task",
        "right %",
        "difference",
        "95 % interval",
        "p (Holm)",
        "n",
        "flips\n+/-",
        LESS_PEOPLE,
    )
    lines = []
    for one in contrasts:
        task, right, _, gap, interval, _, p, n, _, better, worse = _line(one)[2:13]
        who, flips = f"{one.contestant} against {one.baseline}", f"{better}/{worse}"
        lines.append((who, task, right, gap, interval, p, n, flips, _less_people(one)))
    return TextTable(header, lines, 2).without_empty()


def _less_people(contrast: Contrast) -> str:
    return "" if contrast.people is None else f"{100 * (contrast.value - contrast.people):+.1f}"


def _line(contrast: Contrast) -> tuple[str, ...]:
    paired = contrast.paired
    return (
        contrast.contestant,
        contrast.baseline,
        contrast.task,
        f"{100 * contrast.value:.1f}",
        f"{100 * contrast.other:.1f}",
        f"{100 * paired.value:+.1f}",
        f"[{100 * paired.low:+.1f}, {100 * paired.high:+.1f}]",
        _p(paired.p),
        _p(contrast.p_holm),
        str(paired.n),
        str(paired.clusters) if paired.clusters < paired.n else "",
        str(paired.better),
        str(paired.worse),
        str(contrast.fell_out or ""),
        f"{100 * paired.detectable:.1f}",
        paired.test,
        _less_people(contrast),
    )


def _p(p: float, equals: str = "") -> str:
    return f"{equals}{p:.4f}" if p >= 0.0001 else "< 0.0001"


def summary_lines(found: LogComparison) -> Iterator[str]:
    """The result of each log against the baseline in a sentence, how its samples matched, and what
    did not."""
    base = found.logs[0]
    for log, matching in zip(found.logs[1:], found.matchings, strict=True):
        contrast = next(
            (
                c
                for c in found.contrasts
                if (c.contestant, c.baseline, c.task) == (log.name, base.name, ALL)
            ),
            None,
        )
        if contrast is None:
            yield f"{log.name}: no sample has a value in both logs"
            continue
        yield _sentence(contrast)
        ways = ", ".join(f"{count} by {by}" for by, count in matching.counts.items())
        yield f"  matched: {ways}"
        refused = matching.why.keys()
        if refused:
            ids = base.units["sample"].loc[list(refused)]
            yield (
                f"  not compared: {counted(len(refused), 'sample')} whose keys differ"
                f" ({_some(ids)})"
            )
        for one, other, places in ((base, log, matching.left), (log, base, matching.right)):
            if len(rest := places.difference(list(refused)) if one is base else places):
                names = one.units["sample"].loc[rest]
                yield f"  in {one.name} alone, not in {other.name}: {len(rest)} ({_some(names)})"


def _sentence(contrast: Contrast) -> str:
    paired = contrast.paired
    word = "better" if paired.value > 0 else "worse"
    sure = "a clear difference" if contrast.p_holm < 0.05 else "no clear difference"
    points = (
        f"{100 * abs(paired.value):.1f} points {word}" if abs(paired.value) > 1e-9 else "as good"
    )
    return (
        f"{contrast.contestant} is {points} than {contrast.baseline} [{100 * paired.low:+.1f},"
        f" {100 * paired.high:+.1f}], {sure} (p {_p(contrast.p_holm, '= ')} after Holm) on"
        f" {counted(paired.n, 'sample')}; {paired.better} better, {paired.worse} worse"
    ).replace("as good than", "as good as")


def _some(names: Iterable[str]) -> str:
    held = list(names)
    return ", ".join(held[:3]) + (", ..." if len(held) > 3 else "")


def write_comparison(found: LogComparison, folder: Path) -> list[Path]:
    """Write compare.html, compare.md, compare.csv, items.csv and unmatched.csv; gives their paths.
    Raises OSError.

    There is no page of more samples than a browser likes.
    """
    lines = [line.strip() for line in summary_lines(found)]
    page = "\n".join(
        [
            "# Logs compared",
            "",
            *(f"- {line}" for line in lines),
            "",
            contrast_table(found.contrasts).markdown,
            "",
            METHOD,
        ]
    )
    tables = {
        "compare.csv": [contrast_row(contrast) for contrast in found.contrasts],
        "items.csv": found.items,
        "unmatched.csv": found.unmatched,
    }
    write_file(folder / "compare.md", page + "\n")
    paths = [
        folder / "compare.md",
        *(_write_csv(folder / name, rows) for name, rows in tables.items()),
    ]
    if len(found.values) <= MOST_SAMPLES:
        shown = [
            {
                "title": "Logs compared",
                "table": contrast_table(found.contrasts),
                "note": "",
                "facts": (),
                "wrap": False,
            }
        ]
        html = render_page(
            compare_page(found), summary=lines, tables=shown, method=[METHOD], left_out={}
        )
        paths.insert(0, folder / "compare.html")
        write_file(paths[0], html)
    return paths


def _write_csv(path: Path, rows: Sequence[Mapping[str, object]] | pandas.DataFrame) -> Path:
    import pandas

    frame = pandas.DataFrame(rows)
    for name in frame.columns:
        if frame[name].dtype.kind not in "fib":
            known = {text: csv_cell(text) for text in frame[name].unique()}
            frame[name] = frame[name].map(known)
    with whole_file(path) as file:
        frame.rename(columns=csv_cell).to_csv(file, index=False, errors="backslashreplace")
    return path


def spread_table(standings: Standings) -> TextTable:
    """Best minus worst variant, by task and contestant, with the mean of each task."""
    lines = []
    for task in dict.fromkeys(spread.task for spread in standings.spreads):
        part = [spread for spread in standings.spreads if spread.task == task]
        lines += [(task, one.contestant, f"{one.value:.2f}", one.best, one.worst) for one in part]
        lines.append(
            (task, f"mean of {len(part)}", f"{fmean(one.value for one in part):.2f}", "", "")
        )
    return TextTable(("task", "contestant", "best - worst", "best", "worst"), lines, 2)


def rank_table(standings: Standings) -> TextTable:
    """How the order of the contestants changes from the baseline variant to each other one."""
    header = (
        "task",
        "variant",
        "n",
        "pairs\nflipped",
        "pairs\ntied",
        "moved",
        "furthest",
        "tau-b",
        "mean\nchange",
    )
    lines = tuple(
        (
            one.task,
            one.variant,
            str(one.models),
            str(one.flipped),
            str(one.tied),
            str(one.moved),
            str(one.furthest),
            f"{one.tau:.3f}",
            "" if one.mean_change is None else f"{one.mean_change:.2f}",
        )
        for one in standings.changes
    )
    return TextTable(header, lines, 2)


def write_standings(standings: Standings, folder: Path) -> list[Path]:
    """Write compare.md, spreads.csv and ranks.csv; gives their paths. Raises OSError."""
    parts = ["# A published table", f"Every variant is set beside {standings.baseline}."]
    parts += [
        table.markdown for table in (spread_table(standings), rank_table(standings)) if table.rows
    ]
    write_file(folder / "compare.md", "\n\n".join(parts) + "\n")
    tables = {"spreads.csv": standings.spreads, "ranks.csv": standings.changes}
    held = {name: [asdict(one) for one in rows] for name, rows in tables.items() if rows}  # type: ignore[call-overload]
    return [
        folder / "compare.md",
        *(_write_csv(folder / name, rows) for name, rows in held.items()),
    ]
