"""The command that finds the best arm of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from looktwice.eval.commands.options import (
    NO_VALUES,
    ConfigPath,
    OnlyCachedReplies,
    OutFolder,
    Overrides,
    Plugins,
    RunWorkers,
    SampleLimit,
)
from looktwice.eval.commands.studies import run


def discover(
    config: ConfigPath,
    overrides: Overrides = NO_VALUES,
    budget: Annotated[
        int | None,
        Option(
            min=1,
            help="Maximum number of answers of all arms together (default: 30 % of the grid).",
        ),
    ] = None,
    cost: Annotated[
        float | None,
        Option(min=0, help="Stop when the run reaches this cost, by the models' `prices`."),
    ] = None,
    limit: SampleLimit = None,
    workers: RunWorkers = None,
    out: OutFolder = Path("runs"),
    plugin: Plugins = NO_VALUES,
    only_cached: OnlyCachedReplies = False,
) -> None:
    """Find the best arm of a sweep with a fraction of its answers.

    The winner is confirmed on samples that were not used to choose it, tried under other marker
    styles, and written as a study. Run the same command again to resume an interrupted search.
    """
    chosen = ["choose.by=discovery", *([f"choose.budget={budget}"] if budget else [])]
    run(
        config,
        [*overrides, *chosen],
        limit,
        workers,
        out,
        plugin,
        budget=cost,
        only_cached=only_cached,
    )
