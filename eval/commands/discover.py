"""The command that looks for the best arm of a sweep, which is a run that chooses what it asks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.commands.options import (
    NONE,
    Allowed,
    ConfigPath,
    OnlyCached,
    Overrides,
    Plugins,
    Workers,
)
from looktwice.eval.commands.studies import run


def discover(
    config: ConfigPath,
    overrides: Overrides = NONE,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="The most answers, of all arms together (default: 30 % of the grid)."
        ),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(min=0, help="Stop once it has cost so much, by the `prices` of the models."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only this many samples of each task.")
    ] = None,
    workers: Workers = 16,
    out: Annotated[Path, typer.Option(help="The folder that holds all runs.")] = Path("runs"),
    plugin: Plugins = NONE,
    allow: Allowed = NONE,
    only_cached: OnlyCached = False,
) -> None:
    """Find the best arm of a sweep for a part of its answers.

    What wins is confirmed on samples that did not choose it, tried under other marker styles, and
    written as a study. The same command goes on where it was stopped.
    """
    chosen = ["choose.by=discovery", *([f"choose.budget={budget}"] if budget else [])]
    run(
        config,
        [*overrides, *chosen],
        limit,
        workers,
        out,
        plugin,
        allow,
        budget=cost,
        only_cached=only_cached,
    )
