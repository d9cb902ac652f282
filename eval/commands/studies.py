"""The commands that begin with a configuration, or with nothing yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import (
    Allowed,
    Budget,
    CacheSize,
    ConfigPath,
    Gpus,
    Log,
    MaxRequests,
    On,
    Overrides,
    Plugins,
    input_errors,
    load_plugins,
    parse_shard,
    print_results,
    say,
    say_left_out,
)
from looktwice.pipelines.counted import counted


def check(
    config: ConfigPath,
    overrides: Overrides = None,
    plugin: Plugins = None,
    allow: Allowed = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a page per task into this folder: views, words, replies."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Count a run of so many samples of each task.")
    ] = None,
    every_image: Annotated[
        bool, typer.Option("--all", help="Open every image of every task.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="Send each model one request, and say what it cost.")
    ] = False,
) -> None:
    """Print all errors, then try one sample of each task.

    The stages run with a scripted model: without --ask no model is called. It says what a run would
    ask and cost.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.runs.check import check
        from looktwice.pipelines.config.plan import load_plan

        found = load_plan(config, overrides or (), load_plugins(plugin), allow or ())
        say_left_out(found)
        for line in check(found, out, limit, every_image, ask):
            say(line)


def run(
    config: ConfigPath,
    overrides: Overrides = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only this many samples of each task.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    out: Annotated[Path, typer.Option(help="The folder that holds all runs.")] = Path("runs"),
    plugin: Plugins = None,
    allow: Allowed = None,
    shard: Annotated[
        str, typer.Option(help="i/n: run the i-th of n parts of the samples.")
    ] = "1/1",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start again; an earlier run is renamed and kept.")
    ] = False,
    only_cached: Annotated[
        bool, typer.Option("--only-cached", help="Use cached replies only; call no model.")
    ] = False,
    keep_failed: Annotated[
        bool, typer.Option("--keep-failed", help="Do not repeat samples that failed.")
    ] = False,
    cache: Annotated[
        Path | None, typer.Option(help="The folder of the reply cache (default: OUT/.cache).")
    ] = None,
    cache_size: CacheSize = None,
    budget: Budget = None,
    max_requests: MaxRequests = None,
    on: On = "",
    gpus: Gpus = 0.0,
    log: Log = "words",
) -> None:
    """Run a configuration and write its report.

    A run that was stopped is continued.
    """
    with input_errors(allow, out=out, cache=cache):
        from looktwice.eval.runs.predict import RunOptions
        from looktwice.eval.runs.study import Study
        from looktwice.pipelines.config.plan import load_plan

        found = load_plan(config, overrides or (), load_plugins(plugin), allow or ())
        say_left_out(found)
        options = RunOptions(workers, limit, parse_shard(shard), keep_failed, budget, max_requests)
        prune = _make_pruning(cache_size, cache or out / ".cache", out)
        outcome = Study(
            found,
            out,
            options,
            cache,
            fresh,
            only_cached,
            on=on,
            gpus=gpus,
            json_lines=log == "json",
        )()
        if outcome.written or outcome.kept:
            print_results(outcome.folder, found)
        say(
            f"records: {outcome.folder}  ({outcome.written} new, {outcome.kept} were there,"
            f" {outcome.failed} failed)"
        )
        for line in prune():
            say(line)
        if outcome.failed:
            say(
                f"{counted(outcome.failed, 'sample')} FAILED; the report says why, and the same"
                " command asks again"
            )
        if outcome.why:
            say(
                f"stopped: {outcome.why}; what was answered is kept, and the same command goes on"
                " later"
            )
        if outcome.why or outcome.failed or outcome.stopped:
            raise typer.Exit(130 if outcome.stopped and not outcome.why else 1)


def _make_pruning(size: str | None, cache: Path, runs: Path) -> Callable[[], Iterable[str]]:
    """Keeps the cache within a size, if one is given, and says so. Raises RunError for what is no
    size."""
    if size is None:
        return tuple
    from looktwice.eval.runs.reply_cache import keep_within, parse_size

    return partial(keep_within, cache, runs, parse_size(size))


def make(
    config: ConfigPath,
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="The folder of the new question sets.")] = Path("made"),
    split: Annotated[
        str, typer.Option(help="The split, which begins the questions' names.")
    ] = "val",
    plugin: Plugins = None,
    allow: Allowed = None,
) -> None:
    """Make questions from your own files.

    Each task is saved as a folder and as a parquet file like BLINK's.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.make.command import make_questions

        for line in make_questions(
            config, overrides or (), load_plugins(plugin), out, split, allow or ()
        ):
            say(line)


def list_names(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="[KIND]",
            help=(
                "stages, specialists, tools, tasks, readers, models or configs; or a class, such as"
                " Circles."
            ),
        ),
    ] = "",
    plugin: Plugins = None,
) -> None:
    """List what a configuration may name, a line each.

    Without KIND it says how many there are. Of a class it tells the settings, with their types and
    defaults.
    """
    with input_errors():
        from looktwice.eval.listing import SAYS, list_class, list_kind, list_kinds

        plugins = load_plugins(plugin)
        listed = list_kind if kind in SAYS else list_class
        for line in listed(kind, plugins) if kind else list_kinds(plugins):
            say(line)


def init(
    config: Annotated[
        str, typer.Argument(metavar="[CONFIG]", help="A shipped configuration.")
    ] = "study",
    out: Annotated[
        Path | None, typer.Option(help="The file to write (default: CONFIG.yaml).")
    ] = None,
) -> None:
    """Write a commented study to begin with.

    It is a copy of a shipped configuration, which `looktwice list configs` names.
    """
    with input_errors(out=out):
        from looktwice.eval.listing import copy_config

        written = copy_config(config, out)
        say(f"wrote {written}; next: looktwice check {written}")


def serve(
    model: Annotated[
        str, typer.Argument(help="pocket, the small model that comes with looktwice.")
    ] = "pocket",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one.")
    ] = 8765,
) -> None:
    """Serve a model over the chat-completions protocol.

    It listens on this machine alone and needs no key. Images are taken as data URLs.
    """
    with input_errors():
        from looktwice.pipelines.models.serving import serve_by_name

        serve_by_name(model, port, lambda url: say(f"{model} answers at {url}; Ctrl-C ends it"))
