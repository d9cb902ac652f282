"""The command that writes what a paper needs from finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import (
    AllowedOfRun,
    Judged,
    Plugins,
    Reader,
    Runs,
    build_reader,
    input_errors,
    load_plugins,
    say,
)
from looktwice.pipelines.counted import counted


def paper(
    runs: Runs,
    out: Annotated[Path, typer.Option(help="The folder of the files.")] = Path("paper"),
    reader: Reader = None,
    judge: Judged = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Write figures (SVG, PDF), table.tex and records.parquet.

    The figures need matplotlib, which `looktwice[figures]` installs; without it the rest is
    written.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.records.records import RunError
        from looktwice.eval.results import Results

        plugins = load_plugins(plugin)
        results = Results.open(
            *runs, reader=build_reader(reader, plugins), judge=judge, plugins=plugins
        )
        say(f"table: {results.save_latex(out / 'table.tex')}")
        count = results.save_parquet(out / "records.parquet")
        say(f"records: {out / 'records.parquet'} ({counted(count, 'record')})")
        try:
            for path in results.save_figures(out / "figures"):
                say(f"figure: {path}")
        except RunError as exc:
            say(str(exc))
            raise typer.Exit(1) from None
