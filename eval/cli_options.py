"""What the commands share: their options, what they print, and how a fault of the input ends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

__all__: list[str] = []

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings by dotted place.")]
Plugins = Annotated[list[str] | None, typer.Option("--plugin", help="A package or .py file that `use:` may reach.")]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]
Reader = Annotated[str | None, typer.Option("--reader", help="Read the replies with this reader instead.")]
Exports = Annotated[
    list[Path] | None,
    typer.Option(help="Write what was read: .json EvalAI, .tsv/.xlsx VLMEvalKit, .jsonl lmms-eval; {name} per file."),
]
Judged = Annotated[
    str, typer.Option("--judge", help="Whose verdicts count: a judge's name, or none (default: the first).")
]
By = Annotated[list[str] | None, typer.Option("--by", help="Also slice by this meta field.")]


def finish(runs: list[Path], plan: Any) -> None:
    """The table on the terminal, and where the report lies."""
    from looktwice.eval.display.table import score_table
    from looktwice.eval.records.records import RunFolder
    from looktwice.eval.report import write_report
    from looktwice.eval.runs.show import sample_images

    shown(score_table(runs))
    for line in (line for path in runs for line in RunFolder(path).unasked):
        say(line)
    say(f"report: {write_report(runs, runs[0], images=sample_images(plan))}")


def shown(scored: Any) -> None:
    """The table on the terminal, and what each factor is worth where the configuration asks for it."""
    from rich.console import Console

    from looktwice.eval.analysis.factors import factor_table
    from looktwice.eval.display.table import console_table

    console, gap = Console(), factor_table(scored)
    console.print(console_table(scored))
    if gap.rows:
        console.print(gap.console("why the numbers differ", blocks=2))


def share(text: str) -> tuple[int, int]:
    number, _, shards = text.partition("/")
    if not (number.isdecimal() and shards.isdecimal() and 1 <= int(number) <= int(shards)):
        raise typer.BadParameter(f"--shard {text}: expected i/n with 1 <= i <= n, such as 2/8")
    return int(number), int(shards)


def pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(f"--column {text}: expected clues=COLUMN or truth=COLUMN")
    return name, value


def left_out(contestants: Any) -> None:
    for name, why in contestants.items():
        say(f"left out: {name} ({why})")


def say(text: object) -> None:
    typer.echo(str(text))


def plugins_of(names: list[str] | None) -> list[str]:
    from looktwice.pipelines.config.build import load_plugin

    return [load_plugin(name) for name in names or ()]


def reader_of(name: str | None) -> Any:
    from looktwice.eval.readers.reader import build_reader

    return build_reader(name) if name else None


@contextmanager
def faults() -> Iterator[None]:
    """A fault of the input is its message and exit code 2; a fault of ours keeps its traceback."""
    try:
        yield
    except (ValueError, OSError) as exc:
        if not isinstance(exc, _input_faults()):
            raise
        typer.echo(str(exc), err=True)
        raise typer.Exit(2) from None


def _input_faults() -> tuple[type[Exception], ...]:
    """The exceptions whose message is all that a user needs; imported late, because `--help` must not pay for them."""
    from looktwice.eval.records.records import RunError
    from looktwice.eval.tasks.base import TaskError
    from looktwice.pipelines.config.build import ConfigError
    from looktwice.pipelines.models.cache import CacheError
    from looktwice.pipelines.picture import PictureError

    return ConfigError, RunError, TaskError, CacheError, PictureError, OSError
