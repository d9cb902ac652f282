"""The commands that begin with a finished run, or with recorded replies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from looktwice.eval.cli_options import (
    AllArms,
    AllowedOfRun,
    By,
    Exports,
    Judged,
    Only,
    OnlyCached,
    Overrides,
    Plugins,
    Reader,
    Runs,
    build_reader,
    input_errors,
    load_plugins,
    parse_named,
    print_table,
    say,
)
from looktwice.pipelines.counted import counted


def score(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...|FILE...",
            help="Run folders; or recorded replies: JSONL, plain or .gz, toolkits' tables.",
        ),
    ],
    reader: Reader = None,
    by: By = None,
    judge: Judged = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
    all_arms: AllArms = False,
    only: Only = None,
    key: Annotated[Path | None, typer.Option(help="Files: a JSON file of answers by idx.")] = None,
    disagreements: Annotated[
        Path | None, typer.Option(help="Files: write where reader and label differ, with --reader.")
    ] = None,
    export: Exports = None,
) -> None:
    """Read and score runs, or recorded replies; no model is called."""
    with input_errors(allow):
        plugins = load_plugins(plugin)
        files = [run for run in runs if run.suffix and not run.is_dir()]
        if files or key or disagreements or export:
            from looktwice.eval.logs.replies import replies_lines

            for line in replies_lines(runs, reader, key, disagreements, export or (), plugins):
                say(line)
            return
        from looktwice.eval.display.table import score_table

        read = build_reader(reader, plugins)
        print_table(
            score_table(runs, read, by or (), judge, plugins=plugins, all_arms=all_arms, only=only)
        )


def judge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    overrides: Overrides = None,
    model: Annotated[str, typer.Option("--model", help="The judge: a name under `models:`.")] = "",
    config: Annotated[
        Path | None, typer.Option(help="The configuration with `models:` (default: the run's).")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--pass", help="vid, cot or unreadable (default: all).")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="cot: clues=COLUMN or truth=COLUMN of the data.")
    ] = None,
    reader: Reader = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    cache: Annotated[
        Path | None, typer.Option(help="The folder of the reply cache (default: beside the run).")
    ] = None,
    only_cached: OnlyCached = False,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Let a model grade replies that no rule can read.

    Scores and reports then use its verdicts.
    """
    with input_errors(allow, cache=cache):
        from looktwice.eval.judging.command import RunJudge, build_judge_model

        plugins = load_plugins(plugin)
        found = build_judge_model(run, model, config, overrides or (), plugins, allow or ())
        columns, read = (
            dict(parse_named("column", text) for text in column or ()),
            build_reader(reader, plugins),
        )
        judging = RunJudge(
            run, model, found, only or (), read, columns, workers, cache, only_cached, plugins
        )
        try:
            failed = judging(say)
        except KeyboardInterrupt:
            say("stopped; the judgements so far are kept, and the same command continues")
            raise typer.Exit(130) from None
        if failed:
            say(
                f"{counted(failed, 'reply', 'replies')} could not be judged; the same command asks"
                " again"
            )
            raise typer.Exit(1)


def report(
    runs: Runs,
    out: Annotated[
        Path | None, typer.Option(help="Where to write (default: the first run's folder).")
    ] = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper", help="Figures (SVG, PDF), table.tex and records.parquet instead, into paper."
        ),
    ] = False,
    reader: Reader = None,
    by: By = None,
    judge: Judged = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
    all_arms: AllArms = False,
    only: Only = None,
) -> None:
    """Write report.html, report.md and report.csv.

    The figures of a paper need matplotlib, which `looktwice[figures]` installs; without it the rest
    is written.
    """
    with input_errors(allow, out=out):
        plugins = load_plugins(plugin)
        read = build_reader(reader, plugins)
        if paper:
            _write_paper(runs, out or Path("paper"), reader=read, judge=judge, plugins=plugins)
            return
        from looktwice.eval.display.table import score_table
        from looktwice.eval.report import write_report

        scored = score_table(
            runs, read, by or (), judge, plugins=plugins, all_arms=all_arms, only=only
        )
        folder = runs[0] / only.stem if only else runs[0]
        say(f"report: {write_report(scored, out or folder, _images(scored, plugins))}")


def _write_paper(runs: Sequence[Path], out: Path, **how: Any) -> None:
    from looktwice.eval.records.records import RunError
    from looktwice.eval.results import Results

    results = Results.open(*runs, **how)
    for line in results.table.notes:  # such as arms of an earlier plan, which are left out
        say(line)
    say(f"table: {results.save_latex(out / 'table.tex')}")
    count = results.save_parquet(out / "records.parquet")
    say(f"records: {out / 'records.parquet'} ({counted(count, 'record')})")
    try:
        for path in results.save_figures(out / "figures"):
            say(f"figure: {path}")
    except RunError as exc:
        say(str(exc))
        raise typer.Exit(1) from None


def _images(scored: Any, plugins: list[str]) -> Any:
    """How the page gets a sample's own images; says whose data are not there."""
    from looktwice.eval.page.own_images import recorded_tasks, sample_images

    tasks, faults = recorded_tasks([run.folder for run in scored.scores], plugins)
    for fault in faults:
        say(f"shown with the stored pictures, for {fault}")
    return sample_images(tasks)


def view(
    runs: Runs,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one.")
    ] = 0,
    reader: Reader = None,
    by: By = None,
    judge: Judged = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
    all_arms: AllArms = False,
) -> None:
    """Show runs beside one another in a browser.

    The page of the report with every word and picture, read when it is looked at. It is served on
    this machine alone, at an address that nobody can guess.
    """
    with input_errors(allow):
        from looktwice.eval.display.table import score_table
        from looktwice.eval.page.of_runs import RunPage
        from looktwice.eval.page.serving import serve_page
        from looktwice.eval.report import html_page
        from looktwice.eval.runs.show import sample_page

        plugins = load_plugins(plugin)
        scored = score_table(
            runs, build_reader(reader, plugins), by or (), judge, plugins=plugins, all_arms=all_arms
        )
        page = RunPage(scored.scores, _images(scored, plugins))
        html = "".join(html_page(scored, page, served=True))
        serve_page(page, html, partial(sample_page, plugins=plugins), port, say)


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    sample: Annotated[str, typer.Argument(metavar="SAMPLE", help="A sample's id.")],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file (default: RUN/show/SAMPLE.html).")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="The cache of the run (default: beside the run).")
    ] = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Show one sample: views, prompt, replies.

    For every contestant, with the views after each stage.
    """
    with input_errors(allow, out=out, cache=cache):
        from looktwice.eval.runs.show import show_sample

        for line in show_sample(run, sample, out, load_plugins(plugin), cache):
            say(line)


def reply_cache(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The folder that holds all runs.")
    ] = Path("runs"),
    cache: Annotated[
        Path | None, typer.Option(help="The folder of the reply cache (default: OUT/.cache).")
    ] = None,
    prune: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Remove what no record names, oldest first, down to 2GB, say."
        ),
    ] = None,
) -> None:
    """Say what the reply cache holds, by model, or prune it.

    What a record of a run in OUT names is never removed; judges' replies may be, and are then asked
    again.
    """
    with input_errors():
        from looktwice.eval.runs.reply_cache import look_at_cache

        for line in look_at_cache(cache or out / ".cache", out, prune):
            say(line)


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    cache: Annotated[
        Path | None, typer.Option(help="The cache of the run (default: beside the run).")
    ] = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Repeat a run with its recorded replies and compare.

    Everything must be the same bit for bit, and the replies those of the cache; no model is called.
    """
    with input_errors(allow, cache=cache):
        from looktwice.eval.runs.replay import describe_replay, replay

        found = replay(run, load_plugins(plugin), cache)
        for line in describe_replay(found):
            say(line)
        if not found.done:
            raise typer.Exit(1)
