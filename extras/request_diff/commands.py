"""The commands `compare` and `export`, which read logs of looktwice and of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option

from looktwice.eval.commands.options import (
    NO_VALUES,
    Columns,
    Plugins,
    Reader,
    build_reader,
    parse_columns,
    print_text_table,
    say,
)

if TYPE_CHECKING:
    from looktwice.extras.request_diff.requests import Requests
    from looktwice.pipelines.model import Model

AnyLogs = Annotated[
    list[Path],
    Argument(
        metavar="LOG...",
        help=(
            "Run folders, inspect_ai's .eval, VLMEvalKit's .xlsx or .tsv, lmms-eval's samples,"
            " Every Eval Ever, .csv; or one published table of accuracies."
        ),
    ),
]
AskedModel = Annotated[
    str,
    Option(
        metavar="MODEL",
        help="Measure each difference's effect with this model: a node, a class, or FILE.yaml.",
    ),
]
Format = Annotated[
    str,
    Option(
        "--to",
        "--as",
        help=(
            "Format: inspect (.eval), every-eval-ever, eval-results, evalai, lmms-eval or"
            " vlmevalkit. A run can also become `trajectories`; shards of a run are joined with"
            " `run`."
        ),
    ),
]
TrajectoryContestants = Annotated[
    list[str],
    Option(help="trajectories: only this contestant (default: all but placebos and failed ones)."),
]


def compare(
    logs: AnyLogs,
    baseline: Annotated[
        str, Option(help="The baseline: a contestant or variant (default: the first).")
    ] = "",
    only: Annotated[
        list[str], Option(help="Compare only this contestant with the baseline.")
    ] = NO_VALUES,
    pairs: Annotated[
        bool, Option("--pairs", help="Also compare the other contestants with each other.")
    ] = False,
    sent: Annotated[
        bool,
        Option(
            "--sent",
            help="Compare the requests, factor by factor (default for recordings of `serve`).",
        ),
    ] = False,
    ask: AskedModel = "",
    labels: Annotated[
        Path | None, Option(help="A log or run with the correct answers to the requests.")
    ] = None,
    column: Columns = NO_VALUES,
    reader: Reader = None,
    out: Annotated[Path, Option(help="The output folder, for compare.md, .csv and items.")] = Path(
        "compare"
    ),
    plugin: Plugins = NO_VALUES,
) -> None:
    """Compare logs of any harness, sample by sample.

    Samples match by id, or by their pictures and questions; samples without a match are listed.
    """
    from looktwice.extras.logs import report, standings
    from looktwice.extras.logs.compare import compare_logs
    from looktwice.extras.logs.format import read_all_logs
    from looktwice.extras.request_diff.requests import lacks_keys, read_requests, select_sides

    columns = parse_columns(column)
    if sent or ask or any(map(lacks_keys, logs)):
        from looktwice.extras.request_diff.effects import build_model_to_ask

        model = build_model_to_ask(ask, plugin) if ask else None
        sides = [s for path in logs for s in read_requests(path, columns)]
        written = _compare_requests(select_sides(sides, baseline, only), model, labels, out)
    elif standings.is_published(logs, columns):
        table = standings.read_standings(logs[0], columns, baseline)
        print_text_table(standings.build_spread_table(table), "spread", heading_count=1)
        print_text_table(standings.build_rank_table(table), "ranks", heading_count=1)
        written = standings.write_standings(table, out)
    else:
        read = build_reader(reader, plugin)
        every = read_all_logs(logs, columns, read, plugin)
        compared = compare_logs(every, baseline, only, pairs)
        print_text_table(report.build_console_table(compared.contrasts), "", heading_count=1)
        for line in report.summarize_comparison(compared):
            say(line)
        written = report.write_comparison(compared, out)
    say(f"written: {', '.join(map(str, written))}")


def _compare_requests(
    sides: list[Requests], model: Model | None, labels: Path | None, out: Path
) -> list[Path]:
    """Report the differences between the requests of the first side and of each other side, and,
    with a model, the effect of each difference; return the paths of the files written."""
    from looktwice.eval.display.printable import make_file_names
    from looktwice.extras.logs.report import build_console_table
    from looktwice.extras.request_diff import report
    from looktwice.extras.request_diff.effects import TwoSides, measure_effects
    from looktwice.extras.request_diff.factors import compare_requests

    comparisons, base = [compare_requests(sides[0], rival) for rival in sides[1:]], sides[0]
    folders = make_file_names([rival.name for rival in sides[1:]])
    for comparison in comparisons:
        rival = comparison.rival
        print_text_table(report.make_request_table(comparison), "what differs", heading_count=1)
        for line in report.describe_requests(comparison):
            say(line)
        if model is not None and comparison.differences:
            pair = TwoSides(base.path, rival.path, (base.contestant, rival.contestant), labels)
            asked = out / f"asked-{folders[rival.name]}"
            effects = measure_effects(pair, model, asked, (base.name, rival.name))
            baseline = effects.comparison.logs[0].name
            contrasts = [c for c in effects.comparison.contrasts if c.baseline == baseline]
            print_text_table(
                build_console_table(contrasts), "effect of each difference", heading_count=1
            )
            for line in report.describe_effects(effects):
                say(line)
    return report.write_request_diff(comparisons, out)


def export(
    logs: Annotated[
        list[Path], Argument(metavar="LOG...", help="Run folders, or logs that `compare` can read.")
    ],
    to: Format = "",
    out: Annotated[
        Path, Option(help="The output folder; for trajectories FILE.jsonl or .parquet.")
    ] = Path("export"),
    dataset: Annotated[
        str, Option(help="eval-results: the benchmark's repository on the hub.")
    ] = "",
    only: Annotated[
        list[str], Option(help="trajectories: keep only these verdicts, such as right.")
    ] = NO_VALUES,
    contestant: TrajectoryContestants = NO_VALUES,
    whole: Annotated[
        bool, Option("--whole", help="trajectories: leave out any with refused tool calls.")
    ] = False,
    column: Columns = NO_VALUES,
    reader: Reader = None,
    plugin: Plugins = NO_VALUES,
) -> None:
    """Export runs and logs to the formats of other tools.

    `.eval` opens in Inspect View, with the pictures; trajectories are conversations for
    fine-tuning, tools and images included.
    """
    from looktwice.eval.records.records import is_run

    read = build_reader(reader, plugin)
    if to == "trajectories":
        from looktwice.extras.request_diff.trajectories import read_trajectories, write_trajectories

        if len(logs) > 1:
            raise BadParameter("trajectories are written from one run; give one folder")
        file = out if out.suffix else out / "trajectories.jsonl"
        conversations = read_trajectories(logs[0], only, read, whole, plugin, contestant)
        lines = write_trajectories(file, conversations)
    elif to == "inspect" and not column and all(map(is_run, logs)):
        from looktwice.extras.logs.eval_files.runs import export_runs

        lines = export_runs(logs, out, read, plugin)
    else:
        from looktwice.extras.logs.format import export_logs, read_all_logs

        columns = parse_columns(column)
        every = read_all_logs(logs, columns, read, plugin)
        lines = export_logs(every, to, out, dataset)
    for line in lines:
        say(line)
