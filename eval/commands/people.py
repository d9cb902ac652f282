"""The command with which people look at samples."""

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


def annotate(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...|SHEET...", help="Runs and logs, or sheets that people filled in."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder of a new sheet.")] = Path("sheet"),
    ask: Annotated[
        str, typer.Option(help="errors: which kind of error; answers: people answer themselves.")
    ] = "errors",
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many items.")] = 60,
    verdict: Annotated[
        str, typer.Option(help="errors: draw rows of this verdict, or any.")
    ] = "wrong",
    by: Annotated[
        list[str] | None,
        typer.Option(help="A column that makes strata: contestant, task, answer ..."),
    ] = None,
    taxonomy: Annotated[
        str, typer.Option(help="The categories: a,b,c or a file with one on each line.")
    ] = "",
    seed: Annotated[int, typer.Option(help="The seed of the draw.")] = 0,
    reader: Reader = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Draw a sheet for people to fill in, and read it again.

    Filled-in sheets give shares, kappas, and people as contestants for `compare`.
    """
    with input_errors(allow, out=out):
        from rich.console import Console

        from looktwice.eval.annotation import ratings, sheet
        from looktwice.eval.logs.format import read_logs

        if all(ratings.is_sheet(path) for path in sources):
            found = ratings.read_ratings(sources)
            errors = found.key.ask == sheet.ERRORS
            table = ratings.share_table(found) if errors else ratings.answer_table(found)
            Console().print(
                table.console("share of each category, %" if errors else "answers of people")
            )
            for line in ratings.ratings_lines(found):
                say(line)
            if not errors:
                say(
                    "people as contestants:"
                    f" {ratings.write_humans(found, sources[0].parent / 'humans' / 'humans.csv')}"
                )
            return
        plugins = load_plugins(plugin)
        read = build_reader(reader, plugins)
        logs = [log for path in sources for log in read_logs(path, {}, read, plugins)]
        items = sheet.draw_sheet(logs, ask, n, verdict, by or (), seed)
        for line in sheet.write_sheet(items, logs, out, ask, _categories(taxonomy)):
            say(line)


def _categories(text: str) -> list[str]:
    names = (
        Path(text).read_text(encoding="utf-8").splitlines()
        if text and Path(text).is_file()
        else text.split(",")
    )
    return [name.strip() for name in names if name.strip()]
