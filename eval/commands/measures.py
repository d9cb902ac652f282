"""The commands that lay a measurement over a study: how fragile, how fine, which arm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import Allowed, Budget, ConfigPath, MaxRequests, Overrides, Plugins
from looktwice.eval.commands import studies

__all__: list[str] = []


def fragility(
    config: ConfigPath,
    overrides: Overrides = None,
    slot: Annotated[str, typer.Option(help="The slot of the marker in the study.")] = "mark",
    limit: Annotated[int | None, typer.Option(min=1, help="Only this many samples of each task.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    out: Annotated[Path, typer.Option(help="The folder that holds all runs.")] = Path("runs"),
    plugin: Plugins = None,
    allow: Allowed = None,
    budget: Budget = None,
    max_requests: MaxRequests = None,
) -> None:
    """Ask a study under VPBench's marker styles and codecs.

    It says how far each result hangs on them. A sweep of the study's own is left out. The arms stand in the same run.
    """
    laid = ["sweep=null", "each=null", f"fragility.slot={slot}", *(overrides or ())]
    studies.run(config, laid, limit, workers, out, plugin, allow, budget=budget, max_requests=max_requests)
