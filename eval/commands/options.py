"""The shared parts of the commands: options with their shell completion, printing, and the handling
of input errors."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, get_type_hints

from typer import Abort, Argument, BadParameter, Context, Exit, Option, confirm, echo, style

from looktwice.pipelines.runtime.process import Interrupted, get_interrupt_code


def complete_config(incomplete: str) -> list[str]:
    """Return the YAML files and folders that begin with the typed text, then the shipped
    configurations."""
    from looktwice.pipelines.config.shipped import list_configs

    names = [*_list_paths(incomplete, (".yaml", ".yml")), *list_configs()]
    return [name for name in names if name.startswith(incomplete)]


def complete_setting(ctx: Context, incomplete: str) -> list[str]:
    """Return the settings of the configuration that was typed before them, such as
    `stages.mark.radius=`."""
    from looktwice.pipelines.config.classes import ConfigError
    from looktwice.pipelines.config.load import load
    from looktwice.pipelines.config.shipped import find_config

    try:
        node = load(find_config(ctx.params.get("config") or ""))
    except ConfigError:
        return []
    return [f"{place}=" for place in _list_setting_paths(node) if place.startswith(incomplete)]


def complete_name(incomplete: str) -> list[str]:
    """Return the kinds of `looktwice list`, then the classes that begin with the typed text."""
    from looktwice.eval.listing import KIND_DESCRIPTIONS, list_class_names

    names = [*KIND_DESCRIPTIONS, *(list_class_names() if incomplete[:1].isupper() else ())]
    return [name for name in names if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Return the run folders that begin with the typed text: those in `runs`, and folders that may
    contain others."""
    runs = [str(path.parent) for path in sorted(Path("runs").glob("*/points.yaml"))]
    return [*(run for run in runs if run.startswith(incomplete)), *_list_paths(incomplete, ())]


def _list_paths(incomplete: str, endings: tuple[str, ...]) -> Iterator[str]:
    folder = incomplete.rpartition("/")[0]
    for path in sorted(Path(folder or ("/" if incomplete[:1] == "/" else ".")).glob("*")):
        name = f"{folder}/{path.name}" if folder or incomplete[:1] == "/" else path.name
        if name.startswith(incomplete) and not path.name.startswith("."):
            if path.is_dir():
                yield f"{name}/"
            elif path.suffix in endings:
                yield name


def _list_setting_paths(node: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted path of each setting of a configuration that is not a mapping."""
    if not isinstance(node, Mapping):
        yield path
        return
    for key, value in node.items():
        if key != "use":
            yield from _list_setting_paths(value, f"{path}.{key}" if path else str(key))


NO_VALUES: list[str] = []
"""The default of an option that may be given several times."""
ConfigPath = Annotated[
    Path, Argument(metavar="CONFIG", help="A YAML configuration.", autocompletion=complete_config)
]
Overrides = Annotated[
    list[str],
    Argument(
        metavar="[KEY=VALUE]...",
        help="Settings by dotted path, such as task.n=8.",
        autocompletion=complete_setting,
    ),
]
JudgeOverrides = Annotated[
    list[str],
    Argument(
        metavar="[KEY=VALUE]...", help="Settings of the judge, such as models.judge.temperature=0."
    ),
]
Plugins = Annotated[
    list[str], Option("--plugin", help="A package or .py file whose classes `use:` may name.")
]
AllowedAccess = Annotated[
    list[str],
    Option(
        "--allow",
        metavar="FOLDER_OR_HOST",
        help=(
            "Let an untrusted study or run read this folder, or send to this host; otherwise a"
            " terminal asks once (also: LOOKTWICE_ALLOW)."
        ),
    ),
]
"""The option of every command that reads studies or runs; `guard_command` adds it."""
OnlyCachedReplies = Annotated[
    bool, Option("--only-cached", help="Use cached replies only; call no model.")
]
Columns = Annotated[
    list[str],
    Option(
        "--column",
        metavar="NAME=COLUMN",
        help=(
            "The column that holds the field NAME, such as sample=question_id. For the field value,"
            " a scorer's name: value=match."
        ),
    ),
]
RunPath = Annotated[
    Path, Argument(metavar="RUN", help="A run folder.", autocompletion=complete_run)
]
Runs = Annotated[
    list[Path], Argument(metavar="RUN...", help="Run folders.", autocompletion=complete_run)
]
Reader = Annotated[str | None, Option("--reader", help="Read the replies with this reader.")]
CacheOfRun = Annotated[
    Path | None, Option("--cache", help="The run's reply cache (default: next to the run folder).")
]
SampleLimit = Annotated[int | None, Option(min=1, help="Only this many samples of each task.")]
OutFolder = Annotated[Path, Option(help="The folder that holds all runs.")]
OutCache = Annotated[
    Path | None, Option(help="The folder of the reply cache (default: OUT/.cache).")
]
OpenBrowser = Annotated[bool, Option("--open", help="Open a browser.")]
Port = Annotated[int, Option(min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one.")]
Workers = Annotated[int, Option(min=1, help="Worker threads.")]
RunWorkers = Annotated[
    int | None,
    Option(min=1, help="Worker threads (default: 16 plus the largest `in_flight` of the study)."),
]
JudgeName = Annotated[
    str,
    Option(
        "--judge", help="The judge to use, or `none` (default: the one with the most verdicts)."
    ),
]
AllArms = Annotated[
    bool, Option("--all", help="Also show the arms of earlier plans in the same folder.")
]
SliceFields = Annotated[
    list[str],
    Option(
        "--by",
        help="Also report each value of this meta field or measurement; `size,things` crosses two.",
    ),
]
SampleSubset = Annotated[
    Path | None,
    Option(help="Only the samples that this file names, such as clean.yaml from `audit`."),
]

TableKind = Annotated[
    Literal["short", "full"],
    Option(
        "--table", help="The findings in 20 lines (short), or every arm, mean and effect (full)."
    ),
]


def guard_command(command: Callable[..., None], adds_allow: bool = True) -> Callable[..., None]:
    """Wrap a command so that its plugins are loaded and `handle_input_errors` reports its errors;
    if `adds_allow`, the command gets the option `--allow`."""

    @wraps(command)
    def run(**options: Any) -> None:
        places = {name: options.get(name) for name in ("out", "cache")}
        allow = options.get("allow")
        if "allow" not in own:
            options.pop("allow", None)
        with handle_input_errors(allow, **places):
            if options.get("plugin"):
                from looktwice.pipelines.config.classes import load_plugin

                options["plugin"] = [load_plugin(name) for name in options["plugin"]]
            command(**options)

    own = signature(command).parameters
    if adds_allow and "allow" not in own:
        hints = {**get_type_hints(command, include_extras=True), "allow": AllowedAccess}
        added = Parameter("allow", Parameter.KEYWORD_ONLY, default=NO_VALUES)
        every = [p.replace(annotation=hints[p.name]) for p in (*own.values(), added)]
        run.__signature__ = signature(command).replace(parameters=every)  # type: ignore[attr-defined]
        run.__annotations__ = hints
    return run


def ask_in_terminal(question: str) -> bool:
    """Return whether the user answers yes; the end of the input means no. Control characters in the
    question are escaped, so that names in a study cannot change its appearance."""
    from looktwice.eval.display.printable import printable

    try:
        return bool(confirm(" ".join(printable(question).split()), err=True))
    except Abort:
        return False


def is_terminal() -> bool:
    """Return whether a user can see a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def build_reader(name: str | None, plugins: list[str]) -> Any:
    from looktwice.eval.readers.reader import build_reader

    return build_reader(name, plugins) if name else None


def print_text_table(table: Any, title: str, caption: str = "", heading_count: int = 2) -> None:
    """Print a table, if it has rows."""
    from rich.console import Console

    if table.rows:
        Console().print(table.console(title, heading_count, caption))


def print_table(scored: Any, kind: str = "short") -> None:
    """Print the findings; for `full` or with slices, the table and the effect of each factor of a
    sweep or single change. Then print the endings of all analyses."""
    from rich.console import Console

    from looktwice.eval.analysis.analyses import find_analyses
    from looktwice.eval.analysis.finding import find

    finding = find(scored)
    keys = set[str]().union(*(run.config for run in scored.scores))  # of all studies
    if kind == "full" or scored.by:
        from looktwice.eval.display.table import console_table

        Console().print(console_table(scored))
        if {"sweep", "each"} & keys:
            from looktwice.eval.analysis.factors import effect_note, sweep_table

            swept = sweep_table(scored, all_lines=False)
            print_text_table(swept, "effect of each factor", effect_note(scored))
        from looktwice.eval.analysis.letters import POSITION_NOTE, position_table

        print_text_table(position_table(scored), "letters chosen", POSITION_NOTE)
        for sentence in finding.sentences:
            say(sentence)
    else:
        from looktwice.eval.analysis.ending import Ending

        Console().print(Ending(finding))
    for part in find_analyses(scored):
        _print_ending(part, scored)


def _print_ending(part: Any, scored: Any) -> None:
    """Print the tables and sentences that an analysis adds at the end of a run, if any."""
    from looktwice.eval.display.text_tables import TextTable

    shown = part.ending(scored) if part.ending else ()
    if isinstance(shown, TextTable):
        note = part.note if isinstance(part.note, str) else part.note(scored)
        print_text_table(shown, part.title.lower(), note, heading_count=1)
        return
    for piece in shown:
        if isinstance(piece, str):
            say(piece)
        else:
            print_text_table(piece.table, piece.title, piece.note, heading_count=1)


def parse_columns(texts: list[str]) -> dict[str, str]:
    """Parse NAME=COLUMN texts into a mapping. Raises typer.BadParameter."""
    columns = {}
    for text in texts:
        name, _, column = text.partition("=")
        if not (name and column):
            raise BadParameter(f"--column {text}: expected NAME=COLUMN, such as sample=question_id")
        columns[name] = column
    return columns


def say(text: object, fault: bool = False) -> None:
    """Print a text, wrapped between words on a terminal; a fault goes to stderr, in red if the
    terminal has colours."""
    from looktwice.eval.display.printable import printable

    lines, stream = printable(text), sys.stderr if fault else sys.stdout
    if stream.isatty():
        lines = "\n".join(map(_wrap_line, lines.splitlines()))
        if fault and "NO_COLOR" not in os.environ:
            lines = style(lines, fg="red")
    echo(lines, err=fault)


def announce(opens_browser: bool, address: str) -> None:
    """Print the address of a served page, and open it in a browser if `opens_browser`."""
    import webbrowser

    say(f"open {address} in a browser; Ctrl-C stops the server")
    if opens_browser:
        webbrowser.open(address)


def _wrap_line(line: str) -> str:
    """Wrap a line to the width of the terminal; continuation lines are indented one step more."""
    width, words = shutil.get_terminal_size().columns, line.lstrip(" ")
    indent = " " * (len(line) - len(words))
    if len(line) <= width or not words:
        return line
    return textwrap.fill(
        words,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def refuse(sentence: str) -> NoReturn:
    """Raise RunError with a sentence for the user."""
    from looktwice.eval.records.records import RunError

    raise RunError(sentence)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Run the body, such as a server, until Ctrl-C ends it normally. Raises Exit with the exit code
    of any other signal."""
    try:
        yield
    except Interrupted as exc:
        raise Exit(get_interrupt_code(exc)) from None
    except KeyboardInterrupt:
        return


@contextmanager
def handle_input_errors(allow: list[str] | None = None, **places: Path | None) -> Iterator[None]:
    """Print the message of an error in the input and exit with code 2; other errors keep their
    traceback.

    An error in the user's own code counts as an input error, and its file and line are printed.
    Ctrl-C exits with code 130, SIGTERM with 143. `allow` are folders and hosts that may be accessed
    in the context, `places` the paths from options, such as `out`, to which the command writes.
    """
    from looktwice.pipelines.config.paths import allow_access

    code = 2
    try:
        with allow_access(allow or (), ask_in_terminal if is_terminal() else None):
            yield
            return
    except KeyboardInterrupt as exc:
        code = get_interrupt_code(exc)
        message = "stopped"
        if any(places.values()):
            message += "; files written so far are kept, and the same command resumes or restarts"
    except MemoryError as exc:
        exc.__traceback__ = None  # it keeps the objects alive that filled the memory
        message = (
            "there is not enough memory; sweep fewer values, use fewer samples or fewer --workers,"
            " or free memory"
        )
    except Exception as exc:
        message = _describe_error(exc, places)
        if not message:
            raise
    say(message, fault=True)
    raise Exit(code)


def _describe_error(exc: Exception, places: Mapping[str, Path | None]) -> str:
    """Return the message for an error in the input or in a plugin, with the option whose path
    cannot be written; empty for any other error."""
    from looktwice.eval.records.records import RunError
    from looktwice.eval.tasks.base import TaskError
    from looktwice.pipelines.config.classes import ConfigError, find_plugin_frame
    from looktwice.pipelines.extensions import ExtensionError
    from looktwice.pipelines.models.stops import CacheError
    from looktwice.pipelines.picture import PictureError
    from looktwice.pipelines.pipeline import describe_exception

    if isinstance(
        exc, ConfigError | RunError | TaskError | CacheError | PictureError | ExtensionError
    ):
        return str(exc)
    if place := find_plugin_frame(exc):
        return f"{place} raised {describe_exception(exc)}"
    if not isinstance(exc, OSError):
        return ""
    if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"{exc.filename} cannot be written ({exc.strerror}); free some space and run the same"
            " command again to resume"
        )
    return _explain_write_error(exc, places) if isinstance(exc.filename, str) else str(exc)


def _explain_write_error(exc: OSError, places: Mapping[str, Path | None]) -> str:
    failed = Path(os.path.abspath(exc.filename))
    for option, place in places.items():
        if place is None:
            continue
        above = place.absolute().is_relative_to(failed) and not failed.is_dir()
        if above or failed.is_relative_to(place.absolute()):
            files = [path for path in (place, *place.parents) if path.is_file()]
            why = exc.strerror
            if files and exc.errno in (errno.ENOTDIR, errno.EEXIST):
                why = f"{files[0]} is a file"
            return (
                f"--{option} {place} cannot be written ({why}); give --{option} a path that you can"
                " write to"
            )
    return str(exc)
