"""The commands that begin with logs, of ours or of anybody's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import (
    AllowedOfRun,
    Plugins,
    Reader,
    build_reader,
    input_errors,
    load_plugins,
    say,
)


def compare(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...",
            help=(
                "Run folders, inspect_ai's .eval, VLMEvalKit's .xlsx or .tsv, lmms-eval's samples,"
                " Every Eval Ever, "
                ".csv; one published table of accuracies."
            ),
        ),
    ],
    baseline: Annotated[
        str, typer.Option(help="The contestant, or variant, to compare with (default: first).")
    ] = "",
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMN", help="A table's column, or value=SCORER."),
    ] = None,
    reader: Reader = None,
    out: Annotated[
        Path, typer.Option(help="The folder for compare.md, .csv and the items.")
    ] = Path("compare"),
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Compare logs of any harness, sample by sample.

    Samples match by id, or by their pictures and questions; what matches nothing is named.
    """
    with input_errors(allow, out=out):
        from rich.console import Console

        from looktwice.eval.logs import standings, tell
        from looktwice.eval.logs.compare import compare_logs
        from looktwice.eval.logs.format import read_logs

        named, console = dict(_parse_named(text) for text in column or ()), Console()
        if standings.is_published(logs, named):
            table = standings.read_standings(logs[0], named, baseline)
            for title, told in (
                ("spread", standings.spread_table(table)),
                ("ranks", standings.rank_table(table)),
            ):
                if told.rows:
                    console.print(told.console(title, blocks=1))
            written = standings.write_standings(table, out)
        else:
            plugins = load_plugins(plugin)
            read = build_reader(reader, plugins)
            found = compare_logs(
                [log for path in logs for log in read_logs(path, named, read, plugins)], baseline
            )
            console.print(tell.console_table(found.contrasts).console("", blocks=1))
            for line in tell.summary_lines(found):
                say(line)
            written = tell.write_comparison(found, out)
        say(f"written: {', '.join(map(str, written))}")


def export(
    logs: Annotated[
        list[Path],
        typer.Argument(metavar="LOG...", help="Run folders, or logs as `compare` reads them."),
    ],
    to: Annotated[str, typer.Option(help="inspect (.eval), every-eval-ever or eval-results.")],
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("export"),
    dataset: Annotated[
        str, typer.Option(help="eval-results: the benchmark's repository on the hub.")
    ] = "",
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMN", help="A table's column, or value=SCORER."),
    ] = None,
    reader: Reader = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Write runs and logs in the formats of others.

    `.eval` opens in Inspect View, with the pictures; `replies --export` writes EvalAI, VLMEvalKit
    and lmms-eval.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.logs.format import export_logs, read_logs

        named, plugins = dict(_parse_named(text) for text in column or ()), load_plugins(plugin)
        read = build_reader(reader, plugins)
        held = [log for path in logs for log in read_logs(path, named, read, plugins)]
        for line in export_logs(held, to, out, dataset):
            say(line)


def _parse_named(text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    if not (name and equals and column):
        raise typer.BadParameter(
            f"--column {text}: expected NAME=COLUMN, such as sample=question_id"
        )
    return name, column
