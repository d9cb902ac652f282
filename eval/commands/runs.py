"""The commands that start from a finished run or from recorded replies."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Exit, Option

from looktwice.eval.commands.options import (
    NO_VALUES,
    AllArms,
    CacheOfRun,
    Columns,
    JudgeName,
    OpenBrowser,
    OutCache,
    Plugins,
    Port,
    Reader,
    RunPath,
    SampleSubset,
    SliceFields,
    TableKind,
    announce,
    build_reader,
    complete_run,
    parse_columns,
    print_table,
    refuse,
    say,
    until_interrupted,
)
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.extensions import find_extension

NO_RUNS: list[Path] = []


def score(
    runs: Annotated[
        list[Path],
        Argument(
            metavar="RUN...|FILE...",
            help="Run folders; or recorded replies, in any format that `compare` reads.",
            autocompletion=complete_run,
        ),
    ],
    reader: Reader = None,
    by: SliceFields = NO_VALUES,
    judge: JudgeName = "",
    plugin: Plugins = NO_VALUES,
    all_arms: AllArms = False,
    only: SampleSubset = None,
    table: TableKind = "short",
    column: Columns = NO_VALUES,
    key: Annotated[
        Path | None, Option(help='A JSON file of correct answers by sample, such as {"q1": "(A)"}.')
    ] = None,
    disagreements: Annotated[
        Path | None,
        Option(
            help="For recorded replies: write those on which --reader and their label disagree."
        ),
    ] = None,
    export: Annotated[
        list[Path] | None,
        Option(
            help=(
                "Write the answers for EvalAI (.json), VLMEvalKit (.tsv, .xlsx) or lmms-eval"
                " (.jsonl); with {name} in the path, one file for each run."
            )
        ),
    ] = None,
    report: Annotated[
        bool, Option("--report", help="Also write report.html, report.md and report.csv.")
    ] = False,
    paper: Annotated[
        bool,
        Option("--paper", help="Also write figures (SVG, PDF), table.tex and records.parquet."),
    ] = False,
    out: Annotated[
        Path | None,
        Option(help="The folder of the report (default: the run) or paper (default: RUN/paper)."),
    ] = None,
) -> None:
    """Read and score runs, or recorded replies; no model is called.

    With --report or --out it also writes the report. The figures of --paper need matplotlib, which
    `looktwice[figures]` installs; without it, everything else is written.
    """
    columns = parse_columns(column)
    logs = [run for run in runs if (any(run.glob("*.jsonl")) if run.is_dir() else run.suffix)]
    logs = [log for log in logs if not (log / "points.yaml").exists()]
    if columns and not logs:
        raise BadParameter(
            "--column is only for recorded replies, but these are runs: omit it; in `compare`,"
            " --column names fields of a run's questions"
        )
    if key or disagreements or export or logs:
        asked = {"--report": report, "--paper": paper, "--out": out, "--by": by, "--judge": judge}
        asked |= {"--all": all_arms, "--only": only, "--table": table == "full"}
        if unused := [option for option, value in asked.items() if value]:
            why = "cannot be combined with --export, --key or --disagreements"
            if logs:
                why = "works only with runs, not files; for results by task, use `compare`"
            raise BadParameter(f"{', '.join(unused)}: {why}")
        replies = find_extension("parts", "replies")
        if replies is None:
            refuse("recorded replies need the extension `logs`, which is not installed")
        lines = replies.open()(runs, reader, key, disagreements, export or (), plugin, columns)
        for line in lines:
            say(line)
        return
    scored = _score(runs, reader, by, judge, plugin, all_arms, only)
    print_table(scored, "full" if all_arms else table)  # `short` shows the current plan only
    if paper:
        plain = _score(runs, reader, NO_VALUES, judge, plugin) if by or all_arms or only else scored
        _write_paper(plain, out or runs[0] / "paper")
    if report or (out and not paper):
        from looktwice.eval.report import write_report

        folder = out or (runs[0] / only.stem if only else runs[0])
        say(f"report: {write_report(scored, folder, _load_images(scored, plugin))}")


def _score(
    runs: list[Path],
    reader: str | None,
    by: list[str],
    judge: str,
    plugins: list[str],
    all_arms: bool = False,
    only: Path | None = None,
) -> Any:
    from looktwice.eval.display.table import score_table

    read = build_reader(reader, plugins)
    return score_table(runs, read, by, judge, plugins=plugins, all_arms=all_arms, only=only)


def _write_paper(scored: Any, out: Path) -> None:
    from looktwice.eval.records.records import RunError
    from looktwice.eval.results import Results

    results = Results(scored)
    for line in results.table.notes:  # for example, arms of an earlier plan are left out
        say(line)
    say(f"table: {results.save_latex(out / 'table.tex')}")
    count = results.save_parquet(out / "records.parquet")
    say(f"records: {out / 'records.parquet'} ({format_count(count, 'record')})")
    try:
        for path in results.save_figures(out / "figures"):
            say(f"figure: {path}")
    except RunError as exc:
        say(str(exc))
        raise Exit(1) from None


def _load_images(scored: Any, plugins: list[str]) -> Any:
    """Return a function that loads a sample's own images, and print why data cannot be read."""
    from looktwice.eval.page.conversations import make_image_loader, rebuild_tasks

    tasks, faults = rebuild_tasks([run.folder for run in scored.scores], plugins)
    for fault in faults:
        say(f"showing stored pictures, because {fault}")
    return make_image_loader(tasks)


def view(
    runs: Annotated[
        list[Path],
        Argument(
            metavar="[RUN...]",
            help="Run folders (default: the newest).",
            autocompletion=complete_run,
        ),
    ] = NO_RUNS,
    sample: Annotated[
        str,
        Option(metavar="ID", help="Print this sample and write a page of it, instead of serving."),
    ] = "",
    arm: Annotated[
        list[str],
        Option(help="With --sample: show only this contestant, or this arm, as named in tables."),
    ] = NO_VALUES,
    out: Annotated[
        Path | None, Option(help="With --sample: the HTML file (default: RUN/show/ID.html).")
    ] = None,
    cache: CacheOfRun = None,
    port: Port = 0,
    opened: OpenBrowser = False,
    reader: Reader = None,
    by: SliceFields = NO_VALUES,
    judge: JudgeName = "",
    plugin: Plugins = NO_VALUES,
    all_arms: AllArms = False,
) -> None:
    """Show runs side by side in a browser.

    It serves the report's page with all texts and pictures, loaded on demand, on this machine only
    and at an address that cannot be guessed. With --sample it shows one sample instead: the views
    after each stage, and the prompt and reply of every contestant.
    """
    import tempfile

    from looktwice.eval.page.run_page import RunPage
    from looktwice.eval.page.serving import PageServer, serve_page
    from looktwice.eval.recorded.show import render_sample_page
    from looktwice.eval.report import Report, render_report_page

    if not runs:
        records = list(Path("runs").glob("*/records.jsonl"))
        if not records:
            refuse("the folder `runs` holds no run; give a run folder")
        runs = [max(records, key=lambda path: path.stat().st_mtime).parent]
    if sample or arm or out:
        _show_sample(runs, sample, arm, out, cache, plugin)
        return
    scored = _score(runs, reader, by, judge, plugin, all_arms)
    page = RunPage(scored.scores, _load_images(scored, plugin))
    html = "".join(render_report_page(Report(scored), page, served=True))

    with tempfile.TemporaryDirectory(prefix="looktwice-studio-") as folder:
        part = find_extension("parts", "studio")
        studio = part.open()(Path(folder).resolve(), page, plugin) if part else None
        with until_interrupted():
            stages, ready = partial(render_sample_page, plugins=plugin), partial(announce, opened)
            serve_page(PageServer(page, html, stages), port, ready, "view", studio)


def _show_sample(
    runs: list[Path],
    sample: str,
    arms: list[str],
    out: Path | None,
    cache: Path | None,
    plugins: list[str],
) -> None:
    """Print one sample of a run and write its page."""
    from looktwice.eval.recorded.show import ShownRun, show_sample

    if len(runs) > 1:
        raise BadParameter("--sample shows a sample of one run; give one folder")
    for line in show_sample(ShownRun(runs[0], plugins, cache, arms), sample, out):
        say(line)


def manage_reply_cache(
    runs: Annotated[Path, Argument(metavar="OUT", help="The folder that holds all runs.")] = Path(
        "runs"
    ),
    cache: OutCache = None,
    prune: Annotated[
        str | None,
        Option(
            metavar="SIZE",
            help="Remove replies that no record uses, oldest first, down to a size such as 2GB.",
        ),
    ] = None,
) -> None:
    """Show what the reply cache holds, by model, or prune it.

    Replies that a record of a run in OUT uses are never removed; judges' replies may be, and are
    then requested again.
    """
    from looktwice.eval.recorded.reply_cache import report_cache

    for line in report_cache(cache or runs / ".cache", runs, prune):
        say(line)


def replay(run: RunPath, cache: CacheOfRun = None, plugin: Plugins = NO_VALUES) -> None:
    """Repeat a run with its recorded replies and compare the results.

    Requests, replies and answers must be identical bit for bit, and the replies must be those in
    the cache; no model is called.
    """
    from looktwice.eval.recorded.replay import describe_replay, replay

    result = replay(run, plugin, cache)
    for line in describe_replay(result):
        say(line)
    if not result.all_reproduced:
        raise Exit(1)
