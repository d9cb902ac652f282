"""What the commands share: their options, what they print, and how an error in the input ends
them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

__all__: list[str] = []

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML configuration.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings by dotted path, such as task.n=8."),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", help="A package or .py file whose classes `use:` may name."),
]
Allowed = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        help="A folder that the configuration may read, beside its own (also: LOOKTWICE_ALLOW).",
    ),
]
AllowedOfRun = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        help=(
            "A folder that the run's records may read, beside the run's and this (also:"
            " LOOKTWICE_ALLOW)."
        ),
    ),
]
On = Annotated[
    str,
    typer.Option(
        help="ray, or ray://HOST:PORT: by tasks of Ray, here or on a cluster.", hidden=True
    ),
]
Gpus = Annotated[
    float,
    typer.Option(
        min=0, help="The share of a GPU of each actor that holds networks on Ray.", hidden=True
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(min=0, help="Stop once the run has cost so much, by the `prices` of its models."),
]
Log = Annotated[
    Literal["words", "json"],
    typer.Option(
        help="How progress is told on stderr: in words, or as lines of JSON.", hidden=True
    ),
]
CacheSize = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Prune the reply cache at the end where it is larger than 20GB, say.",
        hidden=True,
    ),
]
MaxRequests = Annotated[
    int | None, typer.Option(min=1, help="Stop after so many requests.", hidden=True)
]
OnlyCached = Annotated[
    bool, typer.Option("--only-cached", help="Use cached replies only; call no model.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME=COLUMN", help="A table's column, or value=SCORER."),
]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]
Reader = Annotated[str | None, typer.Option("--reader", help="Read the replies with this reader.")]
Exports = Annotated[
    list[Path] | None,
    typer.Option(
        help=(
            "Write the answers: .json EvalAI, .tsv/.xlsx VLMEvalKit, .jsonl lmms-eval; {name}: a"
            " file each."
        )
    ),
]
Judged = Annotated[
    str,
    typer.Option("--judge", help="The judge whose verdicts count, or none (default: the first)."),
]
AllArms = Annotated[
    bool, typer.Option("--all", help="Also show the arms of earlier plans in the same folder.")
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        help="Also report each value of this meta field or measurement; size,things crosses two.",
    ),
]
Only = Annotated[
    Path | None,
    typer.Option(help="Only the samples that this file names: clean.yaml, as `audit` writes it."),
]


def print_results(run: Path, plan: Any) -> None:
    """Print the table of a run, and write its report."""
    from looktwice.eval.display.table import score_table
    from looktwice.eval.page.own_images import sample_images
    from looktwice.eval.report import write_report

    scored = score_table([run], plan=plan)
    print_table(scored)
    images = sample_images({arm.task_id: arm.task for arm in plan.points})
    report = write_report(scored, run, images, again=False)
    say(f"report: {report}")


def print_text_table(table: Any, title: str, caption: str) -> None:
    from rich.console import Console

    Console().print(table.console(title, blocks=2, caption=caption))


def print_table(scored: Any) -> None:
    """Print the table, and the effect of each factor of a sweep, of each single change, or of a
    gap."""
    from rich.console import Console

    from looktwice.eval.analysis.factors import factor_table
    from looktwice.eval.analysis.fragility_tables import NOTE, flip_table, fragility_table
    from looktwice.eval.analysis.sweeps import effect_note, sweep_table
    from looktwice.eval.display.table import console_table
    from looktwice.eval.psychometrics.thresholds import (
        NOTE as THRESHOLD_NOTE,
        crossed_tables,
        threshold_table,
    )

    console, gap, swept = Console(), factor_table(scored), sweep_table(scored, whole=False)
    console.print(console_table(scored))
    if swept.rows:
        console.print(swept.console("effect of each factor", blocks=2, caption=effect_note(scored)))
    for title, crossed in crossed_tables(scored.scores, scored.by):
        console.print(crossed.console(title))
    if (fitted := threshold_table(scored.scores)).rows:
        console.print(fitted.console("thresholds", blocks=2, caption=THRESHOLD_NOTE))
    if (fragile := fragility_table(scored.scores, whole=False)).rows:
        console.print(fragile.console("how fragile the marker makes it", blocks=1, caption=NOTE))
        if (flips := flip_table(scored.scores)).rows:
            console.print(flips.console("who would lead under another style", blocks=1))
    if gap.rows:
        console.print(gap.console("why the numbers differ", blocks=2))


def parse_shard(text: str) -> tuple[int, int]:
    number, _, shards = text.partition("/")
    if not (number.isdecimal() and shards.isdecimal() and 1 <= int(number) <= int(shards)):
        raise typer.BadParameter(f"--shard {text}: expected i/n with 1 <= i <= n, such as 2/8")
    return int(number), int(shards)


def parse_named(option: str, text: str) -> tuple[str, str]:
    """NAME=VALUE of an option as a pair. Raises typer.BadParameter."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(
            f"--{option} {text}: expected NAME=COLUMN, such as sample=question_id"
        )
    return name, value


def say_left_out(plan: Any) -> None:
    """Name the contestants that a plan leaves out. Raises RunError where none is left."""
    for name, why in plan.left_out.items():
        say(f"left out: {name} ({why})")
    if not plan.points:
        from looktwice.eval.records.records import RunError

        raise RunError(
            "no contestant is left to run: get what the lines above name, or set their paths"
        )


def say(text: object) -> None:
    from looktwice.eval.display.printable import printable

    typer.echo(printable(text))


def load_plugins(names: list[str] | None) -> list[str]:
    from looktwice.pipelines.config.classes import load_plugin

    return [load_plugin(name) for name in names or ()]


def build_reader(name: str | None, plugins: list[str]) -> Any:
    from looktwice.eval.readers.reader import build_reader

    return build_reader(name, plugins) if name else None


@contextmanager
def input_errors(allow: list[str] | None = None, **places: Path | None) -> Iterator[None]:
    """Print the message of an error in the input and exit with code 2; other errors keep their
    traceback.

    An error of the user's own code is one too: its place is told. Ctrl-C ends with code 130.
    `allow` are folders that may be read inside, `places` those of options, such as out, that are to
    be written.
    """
    from looktwice.pipelines.config.paths import use_roots

    try:
        with use_roots(allow or ()):
            yield
    except KeyboardInterrupt:
        typer.echo(
            "stopped; what is written stays, and the same command begins again or goes on", err=True
        )
        raise typer.Exit(130) from None
    except MemoryError as exc:
        exc.__traceback__ = None  # it holds all that filled the memory
        typer.echo(
            "there is not enough memory for this; sweep fewer values, take fewer samples or"
            " --workers, or free some",
            err=True,
        )
        raise typer.Exit(2) from None
    except Exception as exc:
        said = _say_error(exc, places)
        if not said:
            raise
        from looktwice.eval.display.printable import printable

        typer.echo(printable(said), err=True)
        raise typer.Exit(2) from None


def _say_error(exc: Exception, places: Mapping[str, Path | None]) -> str:
    """What a user needs to know of an error in the input or in a plugin; empty for any other."""
    from looktwice.eval.records.records import RunError
    from looktwice.eval.tasks.base import TaskError
    from looktwice.pipelines.config.classes import ConfigError, place_in_plugins
    from looktwice.pipelines.models.cache import CacheError
    from looktwice.pipelines.picture import PictureError
    from looktwice.pipelines.pipeline import describe

    if isinstance(exc, ConfigError | RunError | TaskError | CacheError | PictureError):
        return str(exc)
    if place := place_in_plugins(exc):
        return f"{place} raised {describe(exc)}"
    if isinstance(exc, OSError) and exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"{exc.filename} cannot be written ({exc.strerror}); make room and type the same"
            " command again, which goes on with what is there"
        )
    return _blame_option(exc, places) if isinstance(exc, OSError) else ""


def _blame_option(exc: OSError, places: Mapping[str, Path | None]) -> str:
    """The error in words, with the option that named a place where nothing can be written, if one
    did."""
    if not isinstance(exc.filename, str):
        return str(exc)
    failed = Path(os.path.abspath(exc.filename))
    for option, place in places.items():
        within = place and failed.is_relative_to(place.absolute())
        above = place and place.absolute().is_relative_to(failed) and not failed.is_dir()
        if place and (within or above):
            in_the_way = next((path for path in (place, *place.parents) if path.is_file()), None)
            not_a_folder = in_the_way and exc.errno in (errno.ENOTDIR, errno.EEXIST)
            why = f"{in_the_way} is a file" if not_a_folder else exc.strerror
            return (
                f"--{option} {place} cannot be written ({why}); type --{option} and a place where"
                " you may write"
            )
    return str(exc)
