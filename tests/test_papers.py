"""The page of the papers' tables: a row for each table and figure that the papers name, whose
configurations load."""

import re
from functools import cache
from typing import NamedTuple

import pytest

from looktwice.pipelines.config.load import load
from tests.eval.analysis.test_published import SEEDS
from tests.paths import CONFIGS, DOCS

PAPERS = {"BLINK": "000", "VLM2-Bench": "002", "BLINK-Twice": "003", "Do You See Me": "004"}
NAMED = re.compile(r"\b(Table|Figure)s?\s+(\d+(?:(?:–|, )\d+)*)")
ABBREVIATIONS = (("Tab.", "Table"), ("Fig.", "Figure"))
EXACT = 4  # columns


class Row(NamedTuple):
    paper: str
    printed: str
    configuration: str
    same: str
    differs: str


def read_rows(page: str) -> list[Row]:
    rows = []
    for section in page.split("\n## ")[1:]:
        paper, _, text = section.partition("\n")
        for line in text.splitlines() if paper in PAPERS else ():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("|") and not line.startswith(("|---", "| in the paper")):
                assert len(cells) == EXACT, line
                rows.append(Row(paper, *cells))
    return rows


@cache
def page_rows() -> tuple[Row, ...]:
    return tuple(read_rows((DOCS / "papers.md").read_text(encoding="utf-8")))


def numbers(text: str) -> set[tuple[str, int]]:
    """("Table", 3) for every table and figure that a text names; "9–19" are eleven."""
    for short, word in ABBREVIATIONS:
        text = re.sub(rf"\b{re.escape(short)}", word, text, flags=re.IGNORECASE)
    named = set[tuple[str, int]]()
    for kind, listed in NAMED.findall(text):
        for part in listed.split(", "):
            first, _, last = part.partition("–")
            named |= {(kind, number) for number in range(int(first), int(last or first) + 1)}
    return named


def configurations() -> list[str]:
    """What the second column names, by how configurations begin: no other word there does."""
    names = re.findall(
        r"\b(?:blink|dysm|make|mark|recover|vlm2)_\w+|puzzles",
        " ".join(row.configuration for row in page_rows()),
    )
    return sorted({*names})


@pytest.mark.skipif(not SEEDS.is_dir(), reason="needs the text of the papers")
@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_that_a_paper_names_has_a_row(paper: str) -> None:
    (seed,) = SEEDS.glob(f"{PAPERS[paper]}_*.txt")
    printed = numbers(seed.read_text(encoding="utf-8"))
    listed = set().union(*(numbers(row.printed) for row in page_rows() if row.paper == paper))
    assert len(printed) >= 11 and printed == listed


def test_no_row_is_empty_and_one_without_a_configuration_says_why() -> None:
    for row in page_rows():
        assert all(row), row
        assert {row.same, row.differs} != {"nothing"}, row
        assert row.configuration == "none" or "`" in row.configuration, row
        assert row.configuration != "none" or row.differs != "nothing", row
    assert {row.paper for row in page_rows()} == PAPERS.keys()


def test_every_configuration_with_published_rows_has_a_row() -> None:
    published = {
        path.stem
        for path in CONFIGS.glob("*.yaml")
        if "\npublished:" in path.read_text(encoding="utf-8")
    }
    page = (DOCS / "papers.md").read_text(encoding="utf-8")
    assert published - {"marker_fragility"} <= {*configurations()} and "`marker_fragility`" in page


@pytest.mark.parametrize("name", configurations())
def test_every_configuration_of_a_row_loads(name: str) -> None:
    """As far as it goes without data: that `check` finds no fault is tested in `eval.runs`."""
    config = load(CONFIGS / f"{name}.yaml")
    assert config.get("tasks") or config["task"]


def test_what_is_missing_on_the_page_is_noticed() -> None:
    head = "\n## BLINK\n| in the paper | a | b | c |\n|---|---|---|---|\n"
    (row,) = read_rows(head + "| Tables 1, 3–4: x | none | y | z |\n")
    assert numbers(row.printed) == {("Table", 1), ("Table", 3), ("Table", 4)}
    assert numbers("see fig. 5a and\nTab. 2; Table ??") == {("Figure", 5), ("Table", 2)}
