"""The commands that lay a measurement over a study: how fragile, how fine, which arm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from looktwice.eval.cli_options import (
    Allowed,
    AllowedOfRun,
    Budget,
    ConfigPath,
    MaxRequests,
    Overrides,
    Plugins,
    Runs,
    input_errors,
    load_plugins,
    print_results,
    say,
    say_left_out,
)
from looktwice.eval.commands import studies


def fragility(
    config: ConfigPath,
    overrides: Overrides = None,
    slot: Annotated[str, typer.Option(help="The slot of the marker in the study.")] = "mark",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only this many samples of each task.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    out: Annotated[Path, typer.Option(help="The folder that holds all runs.")] = Path("runs"),
    plugin: Plugins = None,
    allow: Allowed = None,
    budget: Budget = None,
    max_requests: MaxRequests = None,
) -> None:
    """Ask a study under VPBench's marker styles and codecs.

    It says how far each result hangs on them. A sweep of the study's own is left out. The arms
    stand in the same run.
    """
    laid = ["sweep=null", "each=null", f"fragility.slot={slot}", *(overrides or ())]
    studies.run(
        config, laid, limit, workers, out, plugin, allow, budget=budget, max_requests=max_requests
    )


def staircase(
    config: ConfigPath,
    overrides: Overrides = None,
    along: Annotated[
        str, typer.Option(help="The field with the levels (default: `thresholds.along`).")
    ] = "",
    questions: Annotated[int, typer.Option(min=2, help="The most questions of each arm.")] = 60,
    width: Annotated[
        float,
        typer.Option(
            min=0, help="Stop at an interval this wide; on a log scale, the ratio of its ends."
        ),
    ] = 0.0,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    out: Annotated[Path, typer.Option(help="The folder that holds all runs.")] = Path("runs"),
    plugin: Plugins = None,
    allow: Allowed = None,
    budget: Budget = None,
    max_requests: MaxRequests = None,
) -> None:
    """Find each arm's threshold by an adaptive staircase.

    The next level is the one whose answer tells most. Works for models, specialists and people
    alike.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.adaptive.runs import Staircases
        from looktwice.eval.psychometrics.thresholds import Along
        from looktwice.eval.records.records import RunError
        from looktwice.eval.runs.predict import RunOptions

        laid = [*([f"thresholds.along={along}"] if along else []), *(overrides or ())]
        plan = load_steered(config, laid, plugin, allow)
        wanted = Along.of(plan.config.get("thresholds") or {})
        if wanted is None:
            raise RunError(
                "a staircase goes along a field of the questions, such as --along size; none was"
                " named"
            )
        steered = Staircases(wanted, questions, width)
        run_steered(
            plan, steered, out, RunOptions(workers, budget=budget, max_requests=max_requests)
        )


def race(
    config: ConfigPath,
    overrides: Overrides = None,
    level: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="The chance of dropping the best arm.")
    ] = 0.05,
    held_out: Annotated[
        float, typer.Option(min=0, max=0.9, help="The share of samples to confirm on.")
    ] = 0.3,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only this many samples of each task.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    out: Annotated[Path, typer.Option(help="The folder that holds all runs.")] = Path("runs"),
    plugin: Plugins = None,
    allow: Allowed = None,
    budget: Budget = None,
    max_requests: MaxRequests = None,
) -> None:
    """Race the arms of a study for the best.

    Arms that can no longer win are asked no more; the winner is confirmed on held-out samples.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.adaptive.runs import Races
        from looktwice.eval.adaptive.tables import NOTE, race_table, save_races, say_race
        from looktwice.eval.runs.predict import RunOptions

        plan = load_steered(config, overrides or (), plugin, allow)
        races = Races(level, held_out)
        options = RunOptions(workers, limit, budget=budget, max_requests=max_requests)
        folder = run_steered(plan, races, out, options)
        print_text_table(race_table(races.results), "the race", NOTE)
        for result in races.results:
            say(say_race(result, level))
        say(f"race: {save_races(folder, races.results, level)}")


def thresholds(
    runs: Runs,
    along: Annotated[
        str, typer.Option(help="The field with the levels (default: the run's `thresholds`).")
    ] = "",
    target: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="The accuracy at the threshold.")
    ] = 0.75,
    log: Annotated[bool, typer.Option("--log", help="Levels count by their logarithm.")] = False,
    direction: Annotated[
        str, typer.Option(help="rising or falling (default: what fits better).")
    ] = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Fit accuracy along a field, and tell its thresholds.

    No model is called.
    """
    with input_errors(allow):
        from looktwice.eval.display.table import score_table
        from looktwice.eval.psychometrics.thresholds import NOTE, Along, threshold_table
        from looktwice.eval.records.records import RunError

        if direction not in ("", "rising", "falling"):
            raise RunError(f"--direction is rising or falling, found {direction!r}")
        way: Any = direction or None
        scored = score_table(runs, plugins=load_plugins(plugin))
        table = threshold_table(scored.scores, Along(along, target, log, way) if along else None)
        if not table.rows:
            raise RunError(
                f"no sample has numbers in {along!r}"
                if along
                else "name a field with numbers: --along size"
            )
        print_text_table(table, "thresholds", NOTE)


def load_steered(
    config: Path, overrides: Sequence[str], plugin: list[str] | None, allow: list[str] | None
) -> Any:
    """The plan of a study whose questions are chosen one by one."""
    from looktwice.pipelines.config.plan import load_plan

    plan = load_plan(config, overrides, load_plugins(plugin), allow or ())
    say_left_out(plan)
    return plan


def run_steered(plan: Any, steering: Any, out: Path, options: Any) -> Path:
    """Run a plan as the steering chooses, print what a run prints, and return the folder; exits as
    `run` does."""
    from rich.console import Console

    from looktwice.eval.runs.study import Study

    plainly = any(
        getattr(model, "types", False) for model in plan.models
    )  # no bar where somebody types
    console = Console(stderr=True, force_terminal=False if plainly else None)
    outcome = Study(plan, out, options, console=console, steering=steering)()
    if outcome.written or outcome.kept:
        print_results(outcome.folder, plan)
    say(f"records: {outcome.folder}  ({outcome.written} new, {outcome.failed} failed)")
    if outcome.why or outcome.stopped:
        why = f": {outcome.why}" if outcome.why else ""
        say(f"stopped{why}; what was answered is kept, and the same command goes on")
        raise typer.Exit(130 if outcome.stopped and not outcome.why else 1)
    return Path(outcome.folder)


def print_text_table(table: Any, title: str, caption: str) -> None:
    from rich.console import Console

    Console().print(table.console(title, blocks=2, caption=caption))
