"""The commands that begin with a configuration, or with nothing yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

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
    OnlyCached,
    Overrides,
    Plugins,
    input_errors,
    load_plugins,
    parse_shard,
    print_results,
    print_text_table,
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
        str, typer.Option(help="i/n: run the i-th of n parts of the samples.", hidden=True)
    ] = "1/1",
    again: Annotated[
        Literal["failed", "nothing", "all"],
        typer.Option(help="What an earlier run has that is asked again; all: it is renamed."),
    ] = "failed",
    cache: Annotated[
        Path | None, typer.Option(help="The folder of the reply cache (default: OUT/.cache).")
    ] = None,
    budget: Budget = None,
    max_requests: MaxRequests = None,
    only_cached: OnlyCached = False,
    cache_size: CacheSize = None,
    on: On = "",
    gpus: Gpus = 0.0,
    log: Log = "words",
) -> None:
    """Run a configuration and write its report.

    A run that was stopped is continued. With `choose:` in the study it is a race or a staircase.
    What only clusters and schedulers need is listed in docs/reference/commands.md.
    """
    with input_errors(allow, out=out, cache=cache):
        from rich.console import Console

        from looktwice.eval.runs.predict import RunOptions
        from looktwice.eval.runs.study import Study
        from looktwice.pipelines.config.plan import load_plan

        plan = load_plan(config, overrides or (), load_plugins(plugin), allow or ())
        say_left_out(plan)
        options = RunOptions(
            workers, limit, parse_shard(shard), again == "nothing", budget, max_requests
        )
        prune = _make_pruning(cache_size, cache or out / ".cache", out)
        steering = _steering(plan.config)
        typed = any(getattr(model, "types", False) for model in plan.models)
        study = Study(
            plan,
            out,
            options,
            cache,
            again == "all",
            only_cached,
            # no bar where somebody types
            console=Console(stderr=True, force_terminal=False if typed else None),
            steering=steering,
            on=on,
            gpus=gpus,
            json_lines=log == "json",
        )
        outcome = study()
        if outcome.written or outcome.kept:
            print_results(outcome.folder, plan)
            _show_race(steering, outcome.folder)
        _say_outcome(outcome)
        for line in prune():
            say(line)
        if outcome.why or outcome.failed or outcome.stopped:
            raise typer.Exit(130 if outcome.stopped and not outcome.why else 1)


def _steering(config: Mapping[str, Any]) -> Any:
    """What chooses the questions, as `choose:` of the study says; None asks all of them."""
    choose = dict(config.get("choose") or {})
    if not choose:
        return None
    from looktwice.eval.adaptive.runs import Races, Staircases
    from looktwice.eval.psychometrics.thresholds import Along
    from looktwice.eval.records.records import RunError

    if choose.pop("by") == "race":
        return Races(**choose)
    along = Along.of(config.get("thresholds") or {})
    if along is None:
        raise RunError(
            "a staircase goes along a field of the questions, such as thresholds.along=size; none"
            " was named"
        )
    return Staircases(along, **choose)


def _show_race(steering: Any, folder: Path) -> None:
    """Who won, where a run was a race."""
    from looktwice.eval.adaptive.runs import Races
    from looktwice.eval.adaptive.tables import NOTE, race_table, save_races, say_race

    if isinstance(steering, Races):
        print_text_table(race_table(steering.results), "the race", NOTE)
        for result in steering.results:
            say(say_race(result, steering.level))
        say(f"race: {save_races(folder, steering.results, steering.level)}")


def _say_outcome(outcome: Any) -> None:
    """How many records a run wrote, and why it stopped, where it did."""
    say(
        f"records: {outcome.folder}  ({outcome.written} new, {outcome.kept} were there,"
        f" {outcome.failed} failed)"
    )
    if outcome.failed:
        say(
            f"{counted(outcome.failed, 'sample')} FAILED; the report says why, and the same"
            " command asks again"
        )
    if outcome.why:
        say(
            f"stopped: {outcome.why}; what was answered is kept, and the same command goes on later"
        )


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
