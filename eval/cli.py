"""The command line: what `looktwice --help` lists, in this order; `commands` holds a function for
each. Input and output may be closed, end early or be stopped, and the work goes on."""

from __future__ import annotations

import errno
import gc
import io
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from looktwice.eval.commands import analyses, homes, logs, runs, studies
from looktwice.eval.commands.options import guarded, say
from looktwice.pipelines.runtime.heaps import share_heaps
from looktwice.pipelines.runtime.signals import ENDING, code_of, raise_interrupt

__all__ = ["app", "main"]

SELDOM = 50_000
"""So many objects more, rather than 700, between two looks for cycles: a table of 20,000 records
takes a sixth less of a core."""

COMMANDS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "Study": {
        "init": studies.init,
        "list": studies.list_names,
        "check": studies.check,
        "allow": studies.allow,
        "run": studies.run,
        "discover": studies.discover,
        "judge": runs.judge,
        "make": studies.make,
    },
    "Look": {
        "score": runs.score,
        "report": runs.report,
        "analyse": analyses.analyse,
        "view": runs.view,
        "show": runs.show,
        "studio": homes.studio,
    },
    "Compare": {"compare": logs.compare, "export": logs.export, "annotate": logs.annotate},
    "Tools": {
        "replay": runs.replay,
        "cache": runs.reply_cache,
        "serve": homes.serve,
        "mcp": homes.mcp,
    },
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
    "trajectories": Old("export", ("--to", "trajectories")),
    "merge": Old("export", ("--to", "run")),
}
"""Former commands, which still answer in this release."""

SET = "set sweep m name model models task tasks contestant contestants only seed draws stages"
"""What is set by its place, and not by an option."""


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


def say_near(word: str, known: Iterable[str]) -> str:
    """Ends a sentence about an unknown command or option with the one that is meant."""
    from looktwice.pipelines.config.classes import did_you_mean

    return did_you_mean(word, known)


def say_option(option: str, params: Sequence[Any]) -> str:
    """Ends a sentence about an option that a command with these parameters has not."""
    typable, name = [opt for param in params for opt in param.opts], option.lstrip("-")
    if name in ("resume", "continue"):
        return "; the same command goes on where it was stopped"
    if "overrides" in typable and ("." in name or name in SET.split()):
        return "; say stages.mark.radius=5, contestants.NAME=null or models.NAME.model=OTHER"
    if "words" in typable:
        place = "role.NAME" if name == "role" else name  # what stands for one of several arms
        return f"; a setting of an analysis is written {place}=VALUE"
    options = [opt.removeprefix("--") for opt in (*typable, "--help") if opt.startswith("--")]
    return say_near(name, options).replace("'", "'--", 1) or "; see --help"


class Commands(TyperGroup):
    """Answers former commands too, and lists the others in groups."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        words = renew(args)
        if words != args:
            sentence = f"`looktwice {args[0]}` has become `looktwice {shlex.join(words)}`"
            typer.echo(sentence, err=True)
        if words[0] not in self.commands and not ctx.resilient_parsing:  # no shell's completion
            near = say_near(words[0], [*self.commands, "--help", "--version"])
            ctx.fail(f"there is no command {words[0]!r}{near}; `looktwice --help` lists them")
        return super().resolve_command(ctx, words)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as raised:
            exc: Any = raised
            if type(raised).__name__ == "NoSuchOption":
                exc.message += say_option(exc.option_name, exc.ctx.command.params)
                exc.possibilities = None
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for group, commands in COMMANDS.items():
            listed = [(name, self.commands[name].get_short_help_str(70)) for name in commands]
            with formatter.section(group):
                formatter.write_dl(listed)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
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
        app.command(name)(guarded(command))


class _Output(io.FileIO):
    """Output that nobody has to read: where the other end is closed, as by `head`, the rest goes
    nowhere."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as exc:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if exc.errno not in (errno.EPIPE, errno.EIO, errno.EBADF):
                raise OSError(exc.errno, exc.strerror, "the output") from exc
            return len(data)


def keep_streams() -> None:
    """Open what was closed, to nowhere, and let output that nobody reads any more end no command.

    Else the next file to be opened, such as the cache, would take the number of a closed one, and
    what is printed.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            os.set_inheritable(number, True)
            mode = "r" if name == "stdin" else "w"
            nowhere = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, nowhere)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if os.name == "posix" and isinstance(stream, io.TextIOWrapper):
            raw = io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False))
            said_as = stream.encoding, stream.errors, None, stream.line_buffering
            setattr(sys, name, io.TextIOWrapper(raw, *said_as))


def interrupt_when_told() -> None:
    """Let the signals of a scheduler and of a closed terminal do what Ctrl-C does; the exit code
    tells which it was."""
    for name in ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores it
            signal.signal(number, raise_interrupt)


def main() -> None:
    """The entry point of the command `looktwice`."""
    keep_streams()
    interrupt_when_told()
    share_heaps()
    gc.set_threshold(SELDOM)
    try:
        app()
    except KeyboardInterrupt as exc:  # before a command has begun, or after its end
        sys.exit(code_of(exc))
