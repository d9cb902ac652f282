"""The page that lists the tables of the papers."""

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

from looktwice.eval.tasks import Folder
from looktwice.pipelines.config.load import load
from looktwice.pipelines.marks import Point
from tests.paths import CONFIGS, DOCS, ROOT

SEEDS = ROOT.parent / "shared" / "seeds"
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
    """Return ("Table", 3) for every table and figure that a text names; "9–19" are eleven."""
    for short, word in ABBREVIATIONS:
        text = re.sub(rf"\b{re.escape(short)}", word, text, flags=re.IGNORECASE)
    named = set[tuple[str, int]]()
    for kind, listed in NAMED.findall(text):
        for part in listed.split(", "):
            first, _, last = part.partition("–")
            named |= {(kind, number) for number in range(int(first), int(last or first) + 1)}
    return named


def configurations() -> list[str]:
    """Return the configurations in the second column, recognised by their prefixes."""
    names = re.findall(
        r"\b(?:blink|dysm|make|mark|recover|vlm2)_\w+|puzzles",
        " ".join(row.configuration for row in page_rows()),
    )
    return sorted({*names})


@pytest.mark.skipif(not SEEDS.is_dir(), reason="needs the text of the papers")
@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_that_a_paper_mentions_has_a_row(paper: str) -> None:
    (seed,) = SEEDS.glob(f"{PAPERS[paper]}_*.txt")
    printed = numbers(seed.read_text(encoding="utf-8"))
    listed = set().union(*(numbers(row.printed) for row in page_rows() if row.paper == paper))
    assert len(printed) >= 11 and printed == listed


def test_rows_are_complete_and_one_without_a_configuration_has_a_reason() -> None:
    for row in page_rows():
        assert all(row), row
        assert {row.same, row.differs} != {"nothing"}, row
        assert row.configuration == "none" or "`" in row.configuration, row
        assert row.configuration != "none" or row.differs != "nothing", row
    assert {row.paper for row in page_rows()} == PAPERS.keys()


def test_every_configuration_with_published_rows_has_a_row() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in CONFIGS.glob("*.yaml")}
    published = {name for name, text in texts.items() if "\npublished:" in text}
    page = (DOCS / "papers.md").read_text(encoding="utf-8")
    others = {*re.findall(r"^\| `(\w+)` \|", page, re.M), "marker_fragility"}
    assert published <= {*configurations()} | others and "`marker_fragility`" in page


def test_every_configuration_of_a_row_loads() -> None:
    """Load the parts that need no data; `eval.runs` tests that `check` finds no fault."""
    loaded = {name: load(CONFIGS / f"{name}.yaml") for name in configurations()}
    assert [name for name, config in loaded.items() if not {"task", "tasks"} & {*config}] == []


def test_omissions_on_the_page_are_noticed() -> None:
    head = "\n## BLINK\n| in the paper | a | b | c |\n|---|---|---|---|\n"
    (row,) = read_rows(head + "| Tables 1, 3–4: x | none | y | z |\n")
    assert numbers(row.printed) == {("Table", 1), ("Table", 3), ("Table", 4)}
    assert numbers("see fig. 5a and\nTab. 2; Table ??") == {("Figure", 5), ("Table", 2)}


def vpbench_files(root: Path) -> None:
    """Write a pair of pictures with three points each, and a picture with two."""
    depth, pairs = (root / "Dataset" / name for name in ("A/depth", "B/semantic_correspondence"))
    for folder, name in ((depth, "a.png"), (pairs, "cat/8_1.jpg"), (pairs, "cat/8_2.jpg")):
        file = folder / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (450, 300), "white").save(file)
    asked = {"original_image": "a.png", "point_A": [100.7, 20], "point_B": [40, 90]}
    for split, key in (("dev", "B"), ("test", "A")):
        rows = json.dumps([asked | {"human_answer_2": key, "prompt": "Which?"}])
        (depth / f"perceptioneval_depth_{split}.json").write_text(rows)
    pair = {
        "images": ["42-8_1-8_2:cat_1", "42-8_1-8_2:cat_2"],
        "blink_image1_size": [301, 200],
        "blink_image2_size": [1024, 682],
        "src_kps": [[10, 20], [225, 150]],
        "trg_kps": [[45, 60], [450, 0], [90, 30], [9, 9], [180, 150]],
        "gold_point": 1,
        "real_consider_points": [1, 0, 4, 2],
        "real_answer": "(C)",
    }
    lists = json.dumps({"val": [pair], "test": [pair, pair]})
    (pairs / "semantic_corr_raw_fixed.json").write_text(lists)


def test_the_lists_of_vpbench_become_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed by hand; the authors' code draws the same pixels from such files."""
    script = (DOCS / "examples" / "vpbench.py").read_text(encoding="utf-8")
    vpbench_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "vpbench.py", "exec"), {"__name__": "__main__"})
    depth = [*Folder(Path("Dataset/A/depth"), "val.jsonl")]
    assert [(item.sample.marks, item.answer) for item in depth] == [
        ((Point("A", 100.7, 20), Point("B", 40, 90)), "B")
    ]
    (pair, _) = Folder(Path("Dataset/B/semantic_correspondence"), "test.jsonl")
    assert [image.size for image in pair.sample.images] == [(150, 100), (512, 341)]
    places = [(225, 150), (450, 0), (45, 60), (180, 150), (90, 30)]
    scales = [(150 / 450, 100 / 300)] + [(512 / 450, 341 / 300)] * 4
    numbers = [(mark.label, mark.image) for mark in pair.sample.marks]
    assert numbers == [("REF", 0), ("A", 1), ("B", 1), ("C", 1), ("D", 1)]
    for mark, place, scale in zip(pair.sample.marks, places, scales, strict=True):
        assert isinstance(mark, Point)
        assert (mark.x, mark.y) == pytest.approx((place[0] * scale[0], place[1] * scale[1]))
    assert pair.answer == "C" and len(pair.sample.choices) == 4
