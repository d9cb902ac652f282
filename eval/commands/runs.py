"""The commands that begin with a finished run, or with recorded replies."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import (
    AllArms,
    AllowedOfRun,
    By,
    Exports,
    Judged,
    Only,
    Overrides,
    Plugins,
    Reader,
    Runs,
    build_reader,
    input_errors,
    load_plugins,
    parse_column,
    print_table,
    say,
)
from looktwice.pipelines.counted import counted


def score(
    runs: Runs,
    reader: Reader = None,
    by: By = None,
    judge: Judged = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
    all_arms: AllArms = False,
    only: Only = None,
) -> None:
    """Read and score runs again; no model is called."""
    with input_errors(allow):
        from looktwice.eval.display.table import score_table

        plugins = load_plugins(plugin)
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
    only_cached: Annotated[
        bool, typer.Option("--only-cached", help="Use cached replies only; call no model.")
    ] = False,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Let a model grade replies that no rule can read.

    Scores and reports then use its verdicts.
    """
    with input_errors(allow, cache=cache):
        from looktwice.eval.judging.command import RunJudge
        from looktwice.eval.judging.model import build_judge_model

        plugins = load_plugins(plugin)
        found = build_judge_model(run, model, config, overrides or (), plugins, allow or ())
        columns, read = (
            dict(parse_column(text) for text in column or ()),
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
    reader: Reader = None,
    by: By = None,
    judge: Judged = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
    all_arms: AllArms = False,
    only: Only = None,
) -> None:
    """Write report.html, report.md and report.csv."""
    with input_errors(allow, out=out):
        from looktwice.eval.display.table import score_table
        from looktwice.eval.page.own_images import recorded_tasks, sample_images
        from looktwice.eval.report import write_report

        plugins = load_plugins(plugin)
        read = build_reader(reader, plugins)
        scored = score_table(
            runs, read, by or (), judge, plugins=plugins, all_arms=all_arms, only=only
        )
        tasks, faults = recorded_tasks([run.folder for run in scored.scores], plugins)
        for fault in faults:
            say(f"shown with the stored pictures, for {fault}")
        folder = runs[0] / only.stem if only else runs[0]
        say(f"report: {write_report(scored, out or folder, sample_images(tasks))}")


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
        from looktwice.eval.page.own_images import recorded_tasks, sample_images
        from looktwice.eval.page.serving import serve_page
        from looktwice.eval.report import html_page
        from looktwice.eval.runs.show import sample_page

        plugins = load_plugins(plugin)
        scored = score_table(
            runs, build_reader(reader, plugins), by or (), judge, plugins=plugins, all_arms=all_arms
        )
        tasks, faults = recorded_tasks([run.folder for run in scored.scores], plugins)
        for fault in faults:
            say(f"shown with the stored pictures, for {fault}")
        page = RunPage(scored.scores, sample_images(tasks))
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


def replies(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="JSONL files, plain or .gz, toolkits' tables, or run folders."
        ),
    ],
    reader: Reader = None,
    key: Annotated[Path | None, typer.Option(help="A JSON file of answers by idx.")] = None,
    disagreements: Annotated[
        Path | None, typer.Option(help="Write where reader and label differ into a file.")
    ] = None,
    export: Exports = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Score recorded replies by their labels or a reader."""
    with input_errors(allow):
        from looktwice.eval.logs.replies import replies_lines

        for line in replies_lines(
            files, reader, key, disagreements, export or (), load_plugins(plugin)
        ):
            say(line)


def merge(
    runs: Runs, out: Annotated[Path, typer.Option(help="The folder of the merged run.")]
) -> None:
    """Merge the shards of one run."""
    with input_errors(out=out):
        from looktwice.eval.runs.merge import merge

        merged = merge(runs, out)
        say(merged.said)
        if merged.missing:
            raise typer.Exit(1)


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


def trajectories(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    out: Annotated[Path, typer.Option(help="FILE.jsonl, with images beside it, or FILE.parquet.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Keep these verdicts, such as right.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Leave out conversations with refused calls.")
    ] = False,
    reader: Reader = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Write conversations for fine-tuning, as JSONL or Parquet.

    Tools and images are included; every line has the same fields.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.runs.trajectories import write_trajectories

        plugins = load_plugins(plugin)
        for line in write_trajectories(
            run, out, only or (), build_reader(reader, plugins), whole, plugins
        ):
            say(line)
