"""The command line: what `looktwice --help` lists, in this order; `commands` holds a function for
each."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from looktwice.eval.cli_options import say
from looktwice.eval.commands import allowances, analyses, logs, people, runs, studies
from looktwice.eval.streams import interrupt_when_told, keep_streams

__all__ = ["app", "main"]

COMMANDS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "Study": {
        "init": studies.init,
        "list": studies.list_names,
        "check": studies.check,
        "allow": allowances.allow,
        "run": studies.run,
        "judge": runs.judge,
        "make": studies.make,
    },
    "Look": {
        "score": runs.score,
        "report": runs.report,
        "analyse": analyses.analyse,
        "view": runs.view,
        "show": runs.show,
    },
    "Compare": {"compare": logs.compare, "export": logs.export, "annotate": people.annotate},
    "Tools": {"replay": runs.replay, "cache": runs.reply_cache, "serve": studies.serve},
}


class Old(NamedTuple):
    """What a former command is now: the command, what is typed behind it, and what became of its
    options; one that ends in `=` or `.` takes its value."""

    command: str
    more: tuple[str, ...] = ()
    options: Mapping[str, str] = {}


OLD: Mapping[str, Old] = {
    "fragility": Old(
        "run", ("sweep=null", "each=null", "fragility.slot=mark"), {"--slot": "fragility.slot="}
    ),
    "race": Old(
        "run", ("choose.by=race",), {"--level": "choose.level=", "--held-out": "choose.held_out="}
    ),
    "staircase": Old(
        "run",
        ("choose.by=staircase",),
        {
            "--along": "thresholds.along=",
            "--questions": "choose.questions=",
            "--width": "choose.width=",
        },
    ),
    "thresholds": Old(
        "analyse",
        ("thresholds",),
        {
            "--along": "along=",
            "--target": "target=",
            "--log": "scale=log",
            "--direction": "direction=",
        },
    ),
    "certify": Old("analyse", ("certify",), {"--role": "role."}),
    "audit": Old("analyse", ("audit",), {"--any": "rule=any"}),
    "probe": Old("analyse", ("probe",), {"--held-out": "held_out=", "--limit": "limit="}),
    "paper": Old("report", ("--paper",)),
    "replies": Old("score"),
    "trajectories": Old("export", ("--as", "trajectories")),
    "merge": Old("export", ("--as", "run")),
}
"""Former commands, which still answer in this release."""

OLD_OPTIONS = {"run": {"--fresh": "--again=all", "--keep-failed": "--again=nothing"}}


def renew(words: Sequence[str]) -> list[str]:
    """What is typed, in the commands and options of today."""
    name, *rest = words
    command, more, options = OLD.get(name, Old(name, options=OLD_OPTIONS.get(name, {})))
    renewed, left = list[str](), iter(rest)
    for word in left:
        option, equals, value = word.partition("=")
        today = options.get(option, word)
        if option in options and today.endswith(("=", ".")):
            today += value if equals else next(left, "")
        renewed.append(today)
    given = {word.partition("=")[0] for word in renewed}
    return [command, *renewed, *(word for word in more if word.partition("=")[0] not in given)]


class Commands(TyperGroup):
    """Answers former commands too, and lists the others in groups."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        words = renew(args)
        if words != args:
            said = f"`looktwice {args[0]}` has become `looktwice {shlex.join(words)}`"
            typer.echo(said, err=True)
        return super().resolve_command(ctx, words)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for group, commands in COMMANDS.items():
            listed = [(name, self.commands[name].get_short_help_str(70)) for name in commands]
            with formatter.section(group):
                formatter.write_dl(listed)


app = typer.Typer(
    cls=Commands,
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


for group in COMMANDS.values():
    for name, command in group.items():
        app.command(name)(command)


def main() -> None:
    """The entry point of the command `looktwice`."""
    keep_streams()
    interrupt_when_told()
    app()
