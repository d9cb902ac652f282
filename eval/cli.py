"""The command line: what `looktwice --help` lists, in this order; `commands` holds a function for
each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from looktwice.eval.cli_options import say
from looktwice.eval.commands import allowances, audits, logs, measures, paper, people, runs, studies
from looktwice.eval.streams import interrupt_when_told, keep_streams

__all__ = ["app", "main"]

COMMANDS: dict[str, Callable[..., None]] = {
    "check": studies.check,
    "allow": allowances.allow,
    "run": studies.run,
    "fragility": measures.fragility,
    "staircase": measures.staircase,
    "race": measures.race,
    "thresholds": measures.thresholds,
    "score": runs.score,
    "judge": runs.judge,
    "report": runs.report,
    "paper": paper.paper,
    "view": runs.view,
    "show": runs.show,
    "compare": logs.compare,
    "export": logs.export,
    "annotate": people.annotate,
    "replies": runs.replies,
    "make": studies.make,
    "merge": runs.merge,
    "cache": runs.reply_cache,
    "certify": audits.certify,
    "audit": audits.audit,
    "probe": audits.probe,
    "replay": runs.replay,
    "trajectories": runs.trajectories,
    "list": studies.list_names,
    "init": studies.init,
    "serve": studies.serve,
}
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
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Visual prompting and specialist vision models around multimodal LLMs: ablate, compare, look
    again."""


for name, command in COMMANDS.items():
    app.command(name)(command)


def main() -> None:
    """The entry point of the command `looktwice`."""
    keep_streams()
    interrupt_when_told()
    app()
