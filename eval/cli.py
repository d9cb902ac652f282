"""The command line: a table of commands whose modules are imported on first use. A command
continues when its standard streams are closed."""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from looktwice.eval.commands.options import guard_command, say
from looktwice.pipelines.extensions import Extension, find_extension, list_extensions
from looktwice.pipelines.runtime.process import (
    ENDING_SIGNALS,
    get_interrupt_code,
    limit_heaps,
    raise_interrupt,
)

__all__ = ["app", "get_commands", "main"]


GC_THRESHOLD = 50_000
"""Allocations between two garbage collections (Python's default is 700): scoring a table of 20,000
records takes a sixth less CPU time."""

COMMANDS_PACKAGE = "looktwice.eval.commands"
ALLOW_OPTIONS = ("--allow",)
"""Options that a command needs if it reads studies or runs."""
FIRST_COMMANDS = ("init", "check", "run", "view", "score", "compare", "studio", "list")
"""The commands of the first section of `looktwice --help`, in this order."""
COMMANDS: Mapping[str, Extension] = {
    "init": Extension(f"{COMMANDS_PACKAGE}.studies:init", "Write a commented study to begin with."),
    "check": Extension(
        f"{COMMANDS_PACKAGE}.studies:check",
        "Print all errors, then try one sample of each task.",
        ALLOW_OPTIONS,
    ),
    "run": Extension(
        f"{COMMANDS_PACKAGE}.studies:run",
        "Run a configuration and write its report.",
        ALLOW_OPTIONS,
    ),
    "view": Extension(
        f"{COMMANDS_PACKAGE}.runs:view", "Show runs side by side in a browser.", ALLOW_OPTIONS
    ),
    "score": Extension(
        f"{COMMANDS_PACKAGE}.runs:score",
        "Read and score runs, or recorded replies; no model is called.",
        ALLOW_OPTIONS,
    ),
    "list": Extension(
        f"{COMMANDS_PACKAGE}.studies:list_names",
        "List configurations to start with, and what a configuration may use.",
    ),
    "analyse": Extension(
        f"{COMMANDS_PACKAGE}.analyses:analyse",
        "Run one analysis of finished runs; no model is called.",
        ALLOW_OPTIONS,
    ),
    "replay": Extension(
        f"{COMMANDS_PACKAGE}.runs:replay",
        "Repeat a run with its recorded replies and compare the results.",
        ALLOW_OPTIONS,
    ),
    "cache": Extension(
        f"{COMMANDS_PACKAGE}.runs:manage_reply_cache",
        "Show what the reply cache holds, by model, or prune it.",
    ),
}
"""The commands of the core; extensions add the others."""

POSITIONAL_SETTINGS = (
    "set sweep m name model models task tasks contestant contestants only seed draws stages"
)
"""Settings that a user may mistake for options: they are arguments of the form `path=value`."""


def get_commands() -> Mapping[str, Mapping[str, Extension]]:
    """Return the commands by section and name, without importing their modules."""
    known = {**COMMANDS, **list_extensions("commands")}
    first = {name: known.pop(name) for name in FIRST_COMMANDS if name in known}
    return {"Commands": first, "More": known}


def find_command(name: str) -> Extension | None:
    """Return the command of this name from the core or an extension, or None."""
    return COMMANDS.get(name) or find_extension("commands", name)


def open_command(name: str, command: Extension) -> Any:
    """Import the function of a command and build its parser."""
    single = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    single.command(name)(guard_command(command.open(), command.needs == ALLOW_OPTIONS))
    return typer.main.get_command(single)


def suggest_spelling(word: str, known: Iterable[str]) -> str:
    """Suggest known words that resemble an unknown one, as the end of a sentence."""
    from looktwice.pipelines.config.classes import suggest_names

    return suggest_names(word, known)


def explain_unknown_option(option: str, params: Sequence[Any]) -> str:
    """Suggest what to type instead of an unknown option, as the end of a sentence."""
    typable, name = [opt for param in params for opt in param.opts], option.lstrip("-")
    if name in ("resume", "continue"):
        return "; to continue, type the same command again"
    if "overrides" in typable and ("." in name or name in POSITIONAL_SETTINGS.split()):
        return "; type stages.mark.radius=5, contestants.NAME=null or models.NAME.model=OTHER"
    if "words" in typable:
        place = "role.NAME" if name == "role" else name  # one of several arms
        return f"; for a setting of an analysis, type {place}=VALUE"
    options = [opt.removeprefix("--") for opt in (*typable, "--help") if opt.startswith("--")]
    return suggest_spelling(name, options).replace("'", "'--", 1) or "; see --help"


class CommandGroup(TyperGroup):
    """A command group that imports a command when it is typed and lists all of them by section."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for section in get_commands().values() for name in section]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and (command := find_command(cmd_name)):
            self.commands[cmd_name] = open_command(cmd_name, command)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not find_command(args[0]) and not ctx.resilient_parsing:  # not during shell completion
            from looktwice.pipelines.config.classes import extend_hint

            near = suggest_spelling(args[0], [*self.list_commands(ctx), "--help", "--version"])
            hint = extend_hint(near, "`looktwice --help` lists them")
            ctx.fail(f"there is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as raised:
            exc: Any = raised
            if type(raised).__name__ == "NoSuchOption":
                exc.message += explain_unknown_option(exc.option_name, exc.ctx.command.params)
                exc.possibilities = None
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for group, listed in get_commands().items():
            with formatter.section(group):
                formatter.write_dl([(name, command.help) for name, command in listed.items()])


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to import than everything else
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"looktwice {version('looktwice')}")
        raise typer.Exit


@app.callback()
def looktwice(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Visual prompting and specialist vision models around multimodal LLMs: ablate, compare, look
    again."""


class _Output(io.FileIO):
    """Output that discards writes after its reader, such as `head`, has closed it."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as exc:
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, self.fileno())
            os.close(null_device)
            if exc.errno not in (errno.EPIPE, errno.EIO, errno.EBADF):
                raise OSError(exc.errno, exc.strerror, "the output") from exc
            return len(data)


def secure_streams() -> None:
    """Replace closed standard streams by the null device, and let commands continue when the reader
    of their output closes it.

    Otherwise the next opened file, such as the cache, would get the file descriptor of a closed
    stream and receive the printed text.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            os.set_inheritable(number, True)
            mode = "r" if name == "stdin" else "w"
            null_device = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, null_device)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if os.name == "posix" and isinstance(stream, io.TextIOWrapper):
            raw = io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False))
            settings = stream.encoding, stream.errors, None, stream.line_buffering
            setattr(sys, name, io.TextIOWrapper(raw, *settings))


def install_stop_handlers() -> None:
    """Handle a scheduler's signals and a closed terminal like Ctrl-C; the exit code identifies the
    signal."""
    for name in ENDING_SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores it
            signal.signal(number, raise_interrupt)


def main() -> None:
    """Run the command `looktwice`."""
    secure_streams()
    install_stop_handlers()
    limit_heaps()
    gc.set_threshold(GC_THRESHOLD)
    try:
        app()
    except KeyboardInterrupt as exc:  # before a command begins, or after it ends
        sys.exit(get_interrupt_code(exc))
