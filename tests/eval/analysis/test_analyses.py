"""The list of analyses, and how their tables are declared and printed on a terminal."""

from dataclasses import dataclass

import pytest
import yaml
from rich.console import Console

from looktwice.eval.analysis.analyses import find_analyses, get_analysis, list_analyses
from looktwice.eval.commands.options import print_table
from looktwice.eval.display.table import score_table
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    attribute_columns,
    change_cell,
    nonzero_cell,
    table,
)
from looktwice.eval.records import RunError
from looktwice.eval.statistics.intervals import Estimate
from tests.made_run import MadeRun
from tests.optional import needs_extras


@dataclass
class Line:
    task: str
    gap: Estimate | None
    n: int = 0


COLUMNS: tuple[Column[Line], ...] = (
    *attribute_columns("task"),
    Column("change", "gap", change_cell),
    Column("units", "gap.n"),
    Column("n", "n", nonzero_cell),
    Column("twice", lambda line: 2 * line.n),
)


def test_a_column_names_its_attribute_and_its_format() -> None:
    grid = table(COLUMNS, [Line("a", Estimate(0.5, -0.25, 1, 4, 4), 4), Line("b", None)])
    assert grid.header == ("task", "change", "units", "n", "twice") and grid.text_column_count == 1
    assert grid.rows == [
        ("a", "+50.0\n\u221225.0 to +100.0", "4", "4", "8"),
        ("b", "", "", "", "0"),
    ]
    both = grid.without("change", "units").append(TextTable(("n", "task"), [("7", "c")], 0))
    assert both.rows == [("a", "4", "8"), ("b", "", "0"), ("c", "7", "")]


def test_a_table_too_wide_for_the_terminal_puts_intervals_below_their_numbers() -> None:
    cells, header = ["12.5\n0.0 to 31.2"] * 4, ("task", *map(str, range(4)), "best")
    console, shown = Console(width=80), list[str]()
    for head, row in ((header[:3], ("a", *cells[:2])), (header, ("a", *cells, "default"))):
        with console.capture() as captured:
            console.print(TextTable(head, [row]).console("t"))
        shown.append(captured.get())
    assert "12.5 [0.0 to 31.2]" in shown[0] and "12.5 [" not in shown[1]
    assert "[0.0 to 31.2]" in shown[1] and "default" in shown[1]


def test_every_analysis_has_a_name_and_returns_its_tables(made: MadeRun) -> None:
    folder = made.arms("t", "ABAB", "one", one="ABAB", two="ABBB", three="BBAA")
    scored = score_table(folder)
    for name, extension in list_analyses().items():
        opened = extension.open()
        assert opened.title == extension.help and getattr(opened, "name", name) == name
    shown = {each.name for each in find_analyses(scored) if each.tables(scored)}
    assert {"baseline", "pairs", "oracle", "letters"} <= shown
    (pairs,) = get_analysis("pairs").tables(scored)
    assert pairs.title == "Pairs of contestants" and len(pairs.table.rows) == 3
    with pytest.raises(RunError, match="'pairs'"):
        get_analysis("pair")


@pytest.mark.parametrize(
    ("names", "stages", "opened"),
    [
        (["one"], {}, set()),
        (["one"], {"use": "prompting.turns.Ask"}, set()),
        (["one"], {"use": "specialists.answers.Guess"}, {"guesses"}),
        (["one"], {"use": "mine.Guesser"}, {"guesses"}),
        (["one", "two"], {}, {"baseline", "pairs", "oracle", "specialists"}),
    ],
)
def test_a_report_opens_the_analyses_that_may_have_lines(
    names: list[str], stages: dict[str, str], opened: set[str], made: MadeRun
) -> None:
    made.task("t", "AB")
    for name in names:
        made.answers(made.point(name, "t", spec={"stages": {"ask": stages}}), "AB")
    found = {each.name for each in find_analyses(score_table(made.write().path))}
    assert found & {"baseline", "pairs", "oracle", "guesses", "specialists"} == opened


ON_REQUEST: dict[str, tuple[object, str]] = {
    "each": ([{"stages.mark.style": "radius 3"}], "effect of each factor"),
    "thresholds": ({"along": "size"}, "thresholds"),
    "fragility": ({}, "fragility under marker styles"),
    "gap": ({"from": "plain", "to": "other"}, "why the numbers differ"),
}


@needs_extras
@pytest.mark.parametrize("key", ["", *ON_REQUEST])
def test_a_study_prints_the_tables_that_its_configuration_asks_for(
    key: str, made: MadeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    made.task("t", ["A"] * 12, meta=[{"size": number % 4} for number in range(12)])
    for name, style in (("plain", "default"), ("plain", "radius 3"), ("other", "default")):
        changes = {"stages.mark.style": style} if style != "default" else {}
        spec = {"stages": {"mark": {"style": style}}}
        made.answers(made.point(name, "t", spec=spec, changes=changes), "ABAABAABBAAA")
    config = {key: ON_REQUEST[key][0]} if key else {}
    (made.write().path / "run.yaml").write_text(yaml.safe_dump({"config": config}))
    print_table(score_table(made.path), "full")
    shown = capsys.readouterr().out
    titles = [name for name, (_, title) in ON_REQUEST.items() if title in shown]
    assert titles == ([key] if key else [])
