"""The command line: `looktwice check | run | score | judge | report | show | replies | merge`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["app", "main"]

app = typer.Typer(
    help="Visual prompting and specialist vision models around multimodal LLMs: ablate, compare, look again.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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


@app.command()
def check(
    config: ConfigPath,
    overrides: Overrides = None,
    plugin: Plugins = None,
    out: Annotated[Path | None, typer.Option(help="Write the views after each stage into this folder.")] = None,
) -> None:
    """Print all faults, then send one sample of each task through the stages with a scripted model."""
    with _faults():
        from looktwice.eval.check import checked
        from looktwice.pipelines.points import plan

        found = plan(config, overrides or (), _plugins(plugin))
        _left_out(found.left_out)
        for line in checked(found, out):
            _say(line)


@app.command()
def run(
    config: ConfigPath,
    overrides: Overrides = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first samples of each task.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    out: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    plugin: Plugins = None,
    shard: Annotated[str, typer.Option(help="i/n: this machine's share of the samples.")] = "1/1",
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew; an earlier run is moved aside.")] = False,
    only_cached: Annotated[bool, typer.Option("--only-cached", help="Ask no server.")] = False,
    keep_failed: Annotated[bool, typer.Option("--keep-failed", help="Do not ask FAILED samples again.")] = False,
    cache: Annotated[Path | None, typer.Option(help="The folder of the reply cache (default: OUT/.cache).")] = None,
) -> None:
    """Run every point of a configuration, go on where it was stopped, and write the report."""
    with _faults():
        from looktwice.eval.run import Options
        from looktwice.eval.study import Study
        from looktwice.pipelines.points import plan

        found = plan(config, overrides or (), _plugins(plugin))
        _left_out(found.left_out)
        options = Options(workers, limit, _share(shard), keep_failed)
        outcome = Study(found, out, options, cache, fresh, only_cached)()
        _finish([outcome.folder], found)
        _say(f"records: {outcome.folder}  ({outcome.written} new, {outcome.kept} were there, {outcome.failed} failed)")
        if outcome.stopped:
            raise typer.Exit(130)
        if outcome.failed:
            _say(f"{outcome.failed} samples FAILED; the report says why, and the same command asks them again")
            raise typer.Exit(1)


@app.command()
def score(runs: Runs, reader: Reader = None, by: By = None, judge: Judged = "") -> None:
    """Read and score runs again; no model is called."""
    with _faults():
        from looktwice.eval.table import table

        _shown(table(runs, _reader(reader), by or (), judge))


@app.command()
def judge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    overrides: Overrides = None,
    model: Annotated[str, typer.Option("--model", help="The judge: a name under `models:`.")] = "",
    config: Annotated[Path | None, typer.Option(help="Where `models:` is looked up (default: the run's own).")] = None,
    only: Annotated[list[str] | None, typer.Option("--pass", help="vid, cot or unreadable (default: all).")] = None,
    column: Annotated[list[str] | None, typer.Option(help="cot: clues=COLUMN or truth=COLUMN of the data.")] = None,
    reader: Reader = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker threads.")] = 16,
    cache: Annotated[Path | None, typer.Option(help="The folder of the reply cache (default: beside the run).")] = None,
    only_cached: Annotated[bool, typer.Option("--only-cached", help="Ask no server.")] = False,
    plugin: Plugins = None,
) -> None:
    """Ask a model about replies that no rule can read or grade; scores and reports then use what it said."""
    with _faults():
        from looktwice.eval.judge import Judging
        from looktwice.eval.judge_model import judge_model

        found = judge_model(run, model, config, overrides or (), _plugins(plugin))
        columns = dict(_pair(text) for text in column or ())
        judging = Judging(run, model, found, only or (), _reader(reader), columns, workers, cache, only_cached)
        try:
            failed = judging(_say)
        except KeyboardInterrupt:
            _say("stopped; what was judged is kept, and the same command goes on")
            raise typer.Exit(130) from None
        if failed:
            _say(f"{failed} replies could not be judged; the same command asks for them again")
            raise typer.Exit(1)


@app.command()
def report(
    runs: Runs,
    out: Annotated[Path | None, typer.Option(help="Where to write (default: the first run's folder).")] = None,
    reader: Reader = None,
    by: By = None,
    judge: Judged = "",
) -> None:
    """Write report.html, report.md and report.csv of one or several runs."""
    with _faults():
        from looktwice.eval.report import write_report

        where = out or runs[0]
        _say(f"report: {write_report(runs, where, _reader(reader), by or (), judge=judge)}")


@app.command()
def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    sample: Annotated[str, typer.Argument(metavar="SAMPLE", help="A sample's id.")],
    out: Annotated[Path | None, typer.Option(help="The HTML file (default: RUN/show/SAMPLE.html).")] = None,
    plugin: Plugins = None,
) -> None:
    """Show one sample: the views after each stage, the words, the reply, for every contestant."""
    with _faults():
        from looktwice.eval.show import shown

        for line in shown(run, sample, out, _plugins(plugin)):
            _say(line)


@app.command()
def replies(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="JSONL files, plain or .gz, toolkits' tables, or run folders."),
    ],
    reader: Reader = None,
    key: Annotated[Path | None, typer.Option(help="A JSON file of answers by idx.")] = None,
    disagreements: Annotated[Path | None, typer.Option(help="List here where reader and label differ.")] = None,
    export: Exports = None,
) -> None:
    """Score recorded replies: by their recorded labels, or read again."""
    with _faults():
        from looktwice.eval.replies import replies_lines

        for line in replies_lines(files, reader, key, disagreements, export or ()):
            _say(line)


@app.command()
def make(
    config: ConfigPath, overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="The folder of the made sets.")] = Path("made"),
    split: Annotated[str, typer.Option(help="The first word of the questions' names.")] = "val", plugin: Plugins = None,
) -> None:  # fmt: skip
    """Make questions of your own files; each task is saved as a folder task and as BLINK's parquet."""
    with _faults():
        from looktwice.eval.make import made

        for line in made(config, overrides or (), _plugins(plugin), out, split):
            _say(line)


@app.command()
def merge(runs: Runs, out: Annotated[Path, typer.Option(help="The folder of the merged run.")]) -> None:
    """Put the shards of one run together."""
    with _faults():
        from looktwice.eval.merge import merged

        _say(merged(runs, out))


def main() -> None:
    """The entry point of the command `looktwice`."""
    app()


def _finish(runs: list[Path], plan: Any) -> None:
    """The table on the terminal, and where the report lies."""
    from looktwice.eval.records import RunFolder
    from looktwice.eval.report import write_report
    from looktwice.eval.show import images_of
    from looktwice.eval.table import table

    _shown(table(runs))
    for line in (line for path in runs for line in RunFolder(path).unasked):
        _say(line)
    _say(f"report: {write_report(runs, runs[0], images=images_of(plan))}")


def _shown(scored: Any) -> None:
    """The table on the terminal, and what each factor is worth where the configuration asks for it."""
    from rich.console import Console

    from looktwice.eval.gap import gap_grid
    from looktwice.eval.table import console_table

    console, gap = Console(), gap_grid(scored)
    console.print(console_table(scored))
    if gap.rows:
        console.print(gap.console("why the numbers differ", blocks=2))


def _share(text: str) -> tuple[int, int]:
    number, _, shards = text.partition("/")
    if not (number.isdigit() and shards.isdigit() and 1 <= int(number) <= int(shards)):
        raise typer.BadParameter(f"--shard {text}: expected i/n with 1 <= i <= n, such as 2/8")
    return int(number), int(shards)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(f"--column {text}: expected clues=COLUMN or truth=COLUMN")
    return name, value


def _left_out(contestants: Any) -> None:
    for name, why in contestants.items():
        _say(f"left out: {name} ({why})")


def _say(text: object) -> None:
    typer.echo(str(text))


def _plugins(names: list[str] | None) -> list[str]:
    from looktwice.pipelines.build import load_plugin

    return [load_plugin(name) for name in names or ()]


def _reader(name: str | None) -> Any:
    from looktwice.eval.readers import reader

    return reader(name) if name else None


@contextmanager
def _faults() -> Iterator[None]:
    """A fault of the input is its message and exit code 2; a fault of ours keeps its traceback."""
    try:
        yield
    except (ValueError, OSError) as exc:
        from looktwice.eval.faults import INPUT_FAULTS

        if not isinstance(exc, INPUT_FAULTS):
            raise
        typer.echo(str(exc), err=True)
        raise typer.Exit(2) from None
