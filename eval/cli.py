"""The command line: what `looktwice --help` lists, a function for each command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import (
    AllArms,
    Allowed,
    AllowedOfRun,
    Budget,
    By,
    ConfigPath,
    Exports,
    Gpus,
    Judged,
    MaxRequests,
    On,
    Overrides,
    Plugins,
    Reader,
    Runs,
    build_reader,
    input_errors,
    load_plugins,
    parse_column,
    parse_shard,
    print_results,
    print_table,
    say,
    say_left_out,
)
from looktwice.eval.streams import interrupt_when_told, keep_streams
from looktwice.pipelines.counted import counted

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes would take longer to import than all the rest
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"looktwice {version('looktwice')}")
        raise typer.Exit


@app.callback()
def looktwice(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Visual prompting and specialist vision models around multimodal LLMs: ablate, compare, look again."""


@app.command()
def check(
    config: ConfigPath,
    overrides: Overrides = None,
    plugin: Plugins = None,
    allow: Allowed = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a page per task into this folder: views, words, replies.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Count a run of so many samples of each task.")] = None,
    every_image: Annotated[bool, typer.Option("--all", help="Open every image of every task.")] = False,
) -> None:
    """Print all errors, then try one sample of each task.

    The stages run with a scripted model: no model is called. It says what a run would ask and cost.
    """
    with input_errors():
        from looktwice.eval.runs.check import check
        from looktwice.pipelines.config.plan import load_plan

        found = load_plan(config, overrides or (), load_plugins(plugin), allow or ())
        say_left_out(found.left_out)
        for line in check(found, out, limit, every_image):
            say(line)


@app.command()
def run(
    config: ConfigPath,
    overrides: Overrides = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only this many samples of each task.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    out: Annotated[Path, typer.Option(help="The folder that holds all runs.")] = Path("runs"),
    plugin: Plugins = None,
    allow: Allowed = None,
    shard: Annotated[str, typer.Option(help="i/n: run the i-th of n parts of the samples.")] = "1/1",
    fresh: Annotated[bool, typer.Option("--fresh", help="Start again; an earlier run is renamed and kept.")] = False,
    only_cached: Annotated[bool, typer.Option("--only-cached", help="Use cached replies only; call no model.")] = False,
    keep_failed: Annotated[bool, typer.Option("--keep-failed", help="Do not repeat samples that failed.")] = False,
    cache: Annotated[Path | None, typer.Option(help="The folder of the reply cache (default: OUT/.cache).")] = None,
    budget: Budget = None,
    max_requests: MaxRequests = None,
    on: On = "",
    gpus: Gpus = 0.0,
) -> None:
    """Run a configuration and write its report.

    A run that was stopped is continued.
    """
    with input_errors():
        from looktwice.eval.runs.predict import RunOptions
        from looktwice.eval.runs.study import Study
        from looktwice.pipelines.config.plan import load_plan

        found = load_plan(config, overrides or (), load_plugins(plugin), allow or ())
        say_left_out(found.left_out)
        options = RunOptions(workers, limit, parse_shard(shard), keep_failed, budget, max_requests)
        outcome = Study(found, out, options, cache, fresh, only_cached, on=on, gpus=gpus)()
        if outcome.written or outcome.kept:
            whole = limit is None and shard == "1/1" and not keep_failed  # then every sample was looked at
            print_results(outcome.folder, found, whole and not (outcome.written or outcome.stopped))
        say(f"records: {outcome.folder}  ({outcome.written} new, {outcome.kept} were there, {outcome.failed} failed)")
        if outcome.failed:
            say(f"{counted(outcome.failed, 'sample')} FAILED; the report says why, and the same command asks again")
        if outcome.why:
            say(f"stopped: {outcome.why}; what was answered is kept, and the same command goes on later")
        if outcome.why or outcome.failed or outcome.stopped:
            raise typer.Exit(130 if outcome.stopped and not outcome.why else 1)


@app.command()
def score(
    runs: Runs,
    reader: Reader = None,
    by: By = None,
    judge: Judged = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
    all_arms: AllArms = False,
) -> None:
    """Read and score runs again; no model is called."""
    with input_errors(allow):
        from looktwice.eval.display.table import score_table

        plugins = load_plugins(plugin)
        read = build_reader(reader, plugins)
        print_table(score_table(runs, read, by or (), judge, plugins=plugins, all_arms=all_arms))


@app.command()
def judge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    overrides: Overrides = None,
    model: Annotated[str, typer.Option("--model", help="The judge: a name under `models:`.")] = "",
    config: Annotated[Path | None, typer.Option(help="The configuration with `models:` (default: the run's).")] = None,
    only: Annotated[list[str] | None, typer.Option("--pass", help="vid, cot or unreadable (default: all).")] = None,
    column: Annotated[list[str] | None, typer.Option(help="cot: clues=COLUMN or truth=COLUMN of the data.")] = None,
    reader: Reader = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    cache: Annotated[Path | None, typer.Option(help="The folder of the reply cache (default: beside the run).")] = None,
    only_cached: Annotated[bool, typer.Option("--only-cached", help="Use cached replies only; call no model.")] = False,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Let a model grade replies that no rule can read.

    Scores and reports then use its verdicts.
    """
    with input_errors(allow):
        from looktwice.eval.judging.command import RunJudge
        from looktwice.eval.judging.model import build_judge_model

        plugins = load_plugins(plugin)
        found = build_judge_model(run, model, config, overrides or (), plugins, allow or ())
        columns, read = dict(parse_column(text) for text in column or ()), build_reader(reader, plugins)
        judging = RunJudge(run, model, found, only or (), read, columns, workers, cache, only_cached, plugins)
        try:
            failed = judging(say)
        except KeyboardInterrupt:
            say("stopped; the judgements so far are kept, and the same command continues")
            raise typer.Exit(130) from None
        if failed:
            say(f"{counted(failed, 'reply', 'replies')} could not be judged; the same command asks again")
            raise typer.Exit(1)


@app.command()
def report(
    runs: Runs,
    out: Annotated[Path | None, typer.Option(help="Where to write (default: the first run's folder).")] = None,
    reader: Reader = None,
    by: By = None,
    judge: Judged = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
    all_arms: AllArms = False,
) -> None:
    """Write report.html, report.md and report.csv."""
    with input_errors(allow):
        from looktwice.eval.display.table import score_table
        from looktwice.eval.report import write_report

        plugins = load_plugins(plugin)
        read = build_reader(reader, plugins)
        scored = score_table(runs, read, by or (), judge, plugins=plugins, all_arms=all_arms)
        say(f"report: {write_report(scored, out or runs[0])}")


@app.command()
def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    sample: Annotated[str, typer.Argument(metavar="SAMPLE", help="A sample's id.")],
    out: Annotated[Path | None, typer.Option(help="The HTML file (default: RUN/show/SAMPLE.html).")] = None,
    cache: Annotated[Path | None, typer.Option(help="The cache of the run (default: beside the run).")] = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Show one sample: views, prompt, replies.

    For every contestant, with the views after each stage.
    """
    with input_errors(allow):
        from looktwice.eval.runs.show import show_sample

        for line in show_sample(run, sample, out, load_plugins(plugin), cache):
            say(line)


@app.command()
def replies(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="JSONL files, plain or .gz, toolkits' tables, or run folders."),
    ],
    reader: Reader = None,
    key: Annotated[Path | None, typer.Option(help="A JSON file of answers by idx.")] = None,
    disagreements: Annotated[Path | None, typer.Option(help="Write where reader and label differ into a file.")] = None,
    export: Exports = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Score recorded replies by their labels or a reader."""
    with input_errors(allow):
        from looktwice.eval.replies.command import replies_lines

        for line in replies_lines(files, reader, key, disagreements, export or (), load_plugins(plugin)):
            say(line)


@app.command()
def make(
    config: ConfigPath,
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="The folder of the new question sets.")] = Path("made"),
    split: Annotated[str, typer.Option(help="The split, which begins the questions' names.")] = "val",
    plugin: Plugins = None,
    allow: Allowed = None,
) -> None:
    """Make questions from your own files.

    Each task is saved as a folder and as a parquet file like BLINK's.
    """
    with input_errors():
        from looktwice.eval.make.command import make_questions

        for line in make_questions(config, overrides or (), load_plugins(plugin), out, split, allow or ()):
            say(line)


@app.command()
def merge(runs: Runs, out: Annotated[Path, typer.Option(help="The folder of the merged run.")]) -> None:
    """Merge the shards of one run."""
    with input_errors():
        from looktwice.eval.runs.merge import merge

        say(merge(runs, out))


@app.command("cache")
def reply_cache(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder that holds all runs.")] = Path("runs"),
    cache: Annotated[Path | None, typer.Option(help="The folder of the reply cache (default: OUT/.cache).")] = None,
    prune: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Remove what no record names, oldest first, down to 2GB, say.")
    ] = None,
) -> None:
    """Say what the reply cache holds, by model, or prune it.

    What a record of a run in OUT names is never removed; judges' replies may be, and are then asked again.
    """
    with input_errors():
        from looktwice.eval.runs.reply_cache import look_at_cache

        for line in look_at_cache(cache or out / ".cache", out, prune):
            say(line)


@app.command()
def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    cache: Annotated[Path | None, typer.Option(help="The cache of the run (default: beside the run).")] = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Repeat a run with its recorded replies and compare.

    Everything must be the same bit for bit, and the replies those of the cache; no model is called.
    """
    with input_errors(allow):
        from looktwice.eval.runs.replay import describe_replay, replay

        found = replay(run, load_plugins(plugin), cache)
        for line in describe_replay(found):
            say(line)
        if not found.done:
            raise typer.Exit(1)


@app.command()
def trajectories(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    out: Annotated[Path, typer.Option(help="FILE.jsonl, with images beside it, or FILE.parquet.")],
    only: Annotated[list[str] | None, typer.Option(help="Keep these verdicts, such as right.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Leave out conversations with refused calls.")] = False,
    reader: Reader = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Write conversations for fine-tuning, as JSONL or Parquet.

    Tools and images are included; every line has the same fields.
    """
    with input_errors(allow):
        from looktwice.eval.runs.trajectories import write_trajectories

        plugins = load_plugins(plugin)
        for line in write_trajectories(run, out, only or (), build_reader(reader, plugins), whole, plugins):
            say(line)


@app.command("list")
def list_names(
    kind: Annotated[
        str, typer.Argument(metavar="[KIND]", help="stages, specialists, tools, tasks, readers, models or configs.")
    ] = "",
    plugin: Plugins = None,
) -> None:
    """List what a configuration may name, a line each.

    Without KIND it says how many there are.
    """
    with input_errors():
        from looktwice.eval.listing import list_kind, list_kinds

        plugins = load_plugins(plugin)
        for line in list_kind(kind, plugins) if kind else list_kinds(plugins):
            say(line)


@app.command()
def init(
    config: Annotated[str, typer.Argument(metavar="[CONFIG]", help="A shipped configuration.")] = "study",
    out: Annotated[Path | None, typer.Option(help="The file to write (default: CONFIG.yaml).")] = None,
) -> None:
    """Write a commented study to begin with.

    It is a copy of a shipped configuration, which `looktwice list configs` names.
    """
    with input_errors():
        from looktwice.eval.listing import copy_config

        written = copy_config(config, out)
        say(f"wrote {written}; next: looktwice check {written}")


@app.command()
def serve(
    model: Annotated[str, typer.Argument(help="pocket, the small model that comes with looktwice.")] = "pocket",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one.")] = 8765,
) -> None:
    """Serve a model over the chat-completions protocol.

    It listens on this machine alone and needs no key. Images are taken as data URLs.
    """
    with input_errors():
        from looktwice.pipelines.models.serving import serve_by_name

        serve_by_name(model, port, lambda url: say(f"{model} answers at {url}; Ctrl-C ends it"))


def main() -> None:
    """The entry point of the command `looktwice`."""
    keep_streams()
    interrupt_when_told()
    app()
