"""The commands that begin with logs, of ours or of anybody's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import (
    AllowedOfRun,
    Columns,
    Plugins,
    Reader,
    build_reader,
    input_errors,
    load_plugins,
    parse_named,
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
    column: Columns = None,
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

        named, console = dict(parse_named("column", text) for text in column or ()), Console()
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
    to: Annotated[
        str,
        typer.Option(
            "--to",
            "--as",
            help=(
                "inspect (.eval), every-eval-ever or eval-results; of a run: trajectories; of the"
                " shards of one: run."
            ),
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Where to write: a folder; trajectories: FILE.jsonl or .parquet.")
    ] = Path("export"),
    dataset: Annotated[
        str, typer.Option(help="eval-results: the benchmark's repository on the hub.")
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="trajectories: keep these verdicts, such as right.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="trajectories: none with refused calls.")
    ] = False,
    column: Columns = None,
    reader: Reader = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Write runs and logs in the formats of others.

    `.eval` opens in Inspect View, with the pictures; trajectories are conversations for
    fine-tuning, tools and images included; run merges shards. `score --export` writes EvalAI,
    VLMEvalKit and lmms-eval.
    """
    with input_errors(allow, out=out):
        plugins = load_plugins(plugin)
        read = build_reader(reader, plugins)
        if to == "run":
            from looktwice.eval.runs.merge import merge

            merged = merge(logs, out)
            say(merged.said)
            if merged.missing:
                raise typer.Exit(1)
            return
        if to == "trajectories":
            from looktwice.eval.runs.trajectories import write_trajectories

            file = out if out.suffix else out / "trajectories.jsonl"
            lines = write_trajectories(_one_run(logs), file, only or (), read, whole, plugins)
        else:
            from looktwice.eval.logs.format import export_logs, read_logs

            named = dict(parse_named("column", text) for text in column or ())
            held = [log for path in logs for log in read_logs(path, named, read, plugins)]
            lines = export_logs(held, to, out, dataset)
        for line in lines:
            say(line)


def _one_run(logs: Sequence[Path]) -> Path:
    if len(logs) > 1:
        raise typer.BadParameter("trajectories are written of one run; give one folder")
    return logs[0]
