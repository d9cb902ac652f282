"""The command that creates annotation sheets and evaluates filled-in ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from looktwice.eval.commands.options import (
    NO_VALUES,
    Plugins,
    Reader,
    build_reader,
    print_text_table,
    say,
)


def annotate(
    sources: Annotated[
        list[Path], Argument(metavar="LOG...|SHEET...", help="Runs and logs, or filled-in sheets.")
    ],
    out: Annotated[Path, Option(help="The folder for a new sheet.")] = Path("sheet"),
    ask: Annotated[
        str,
        Option(
            help="errors: classify errors; answers: answer questions; replies: read the replies."
        ),
    ] = "errors",
    n: Annotated[int, Option("--n", "-n", min=1, help="Number of items.")] = 60,
    verdict: Annotated[
        str, Option(help="errors: the verdict of the rows to draw, or any.")
    ] = "wrong",
    by: Annotated[
        list[str], Option(help="A column that defines strata: contestant, task, answer ...")
    ] = NO_VALUES,
    taxonomy: Annotated[
        str, Option(help="The categories: a,b,c or a file with one on each line.")
    ] = "",
    seed: Annotated[int, Option(help="The random seed.")] = 0,
    exposure: Annotated[
        str,
        Option(
            metavar="TIME",
            help="answers: time to show pictures before a mask, such as 200ms; 0ms: until the"
            " answer.",
        ),
    ] = "",
    practice: Annotated[
        int, Option(min=0, help="answers: number of practice items per task, with feedback.")
    ] = 0,
    judged: Annotated[
        Path | None, Option(help="replies: a run whose judges are compared with the people.")
    ] = None,
    reader: Reader = None,
    plugin: Plugins = NO_VALUES,
) -> None:
    """Create an annotation sheet for people, or evaluate filled-in ones.

    Filled-in sheets give shares, kappas, and people as contestants for `compare`.
    """
    from looktwice.extras.annotation import ratings, sheet
    from looktwice.extras.logs.format import read_logs

    if all(ratings.is_sheet(path) for path in sources):
        _print_ratings(sources, judged)
        return
    read = build_reader(reader, plugin)
    logs = [log for path in sources for log in read_logs(path, {}, read, plugin)]
    timed = None
    if exposure or practice:
        ask, timed = sheet.ASK_ANSWERS, sheet.parse_exposure(exposure or "0ms")
    items = sheet.draw_sheet(logs, ask, n, verdict, by, seed, practice)
    file = Path(taxonomy)
    names = file.read_text(encoding="utf-8").splitlines() if file.is_file() else taxonomy.split(",")
    categories = list(filter(None, map(str.strip, names)))
    for line in sheet.write_sheet(items, logs, out, ask, categories, timed):
        say(line)


def _print_ratings(sheets: list[Path], judged: Path | None) -> None:
    """Print the evaluation of filled-in sheets, next to the judges of a run, and write people's
    answers as logs."""
    from looktwice.extras.annotation import ratings, sheet

    rated = ratings.read_ratings(sheets)
    errors, answers = (rated.key.ask == ask for ask in (sheet.ASK_ERRORS, sheet.ASK_ANSWERS))
    rated = ratings.add_judges(rated, judged) if judged else rated
    if errors:
        print_text_table(
            ratings.tabulate_shares(rated), "share of each category, %", heading_count=0
        )
    if answers:
        print_text_table(ratings.tabulate_answers(rated), "answers of people", heading_count=0)
    times = ratings.tabulate_times(rated)
    print_text_table(times, "medians, ms from the pictures' onset", heading_count=0)
    for line in ratings.describe_ratings(rated):
        say(line)
    if answers:
        print_text_table(
            ratings.tabulate_difficulties(rated), "right by difficulty, %", heading_count=0
        )
        people = sheets[0].parent / ratings.HUMANS_FILE
        say(f"people as contestants: {ratings.write_human_log(rated, people)}")
