"""Published rows: the difference of a run to them, and each number occurs in its paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from scipy.stats import binom, fisher_exact

from looktwice.eval.display.table import score_table
from looktwice.extras.studies.gap import find_published_shares, make_published_gap_table
from looktwice.extras.studies.unpaired import compare_shares
from tests.extras.studies.test_people import run
from tests.paths import CONFIGS, ROOT
from tests.tables import check_all, read_yaml

SEEDS = Path(ROOT).parent / "shared" / "seeds"
PAPERS = {"blink_twice": "003", "blink": "000", "vlm2": "002", "dysm": "004"}
ELSEWHERE = re.compile(
    "counted in the answers|counted again|camera-ready|repository's page|on two questions of every"
)
"""Sources other than the papers; their numbers need not occur in the papers."""


def rows() -> Iterator[tuple[str, str]]:
    for path in sorted(CONFIGS.glob("*.yaml")):
        if paper := next((paper for paper in PAPERS if path.name.startswith(paper)), ""):
            for name, row in (read_yaml(path).get("published") or {}).items():
                if not ELSEWHERE.search(row["source"]):
                    yield f"{PAPERS[paper]} {path.stem}", str(name)


@pytest.mark.skipif(not SEEDS.is_dir(), reason="needs the text of the papers")
def test_every_number_of_a_row_occurs_in_its_paper() -> None:
    """As printed, or without the last digit where columns of the text run together. Means that are
    computed here are excluded."""
    check_all((row, partial(check_row, *row)) for row in rows())


def check_row(config: str, name: str) -> None:
    seed, stem = config.split()
    text = next(SEEDS.glob(f"{seed}_*.txt")).read_text(encoding="utf-8")
    row = read_yaml(CONFIGS / f"{stem}.yaml")["published"][name]
    printed = set(re.findall(r"(?<![\d.])\d+(?:\.\d+)?", text))
    # the total is computed from these keys; the mean of eight is that of the camera-ready
    counted = {"blink_macro_without_reflectance", "overall_8"}
    for task, value in row["accuracy"].items():
        forms = {f"{value:.2f}", f"{value:g}", f"{value:.1f}", f"{value / 100:.3f}"}
        forms.add(f"{value:.2f}"[:-1])
        assert task in counted or forms & printed, (task, value)


def test_a_number_with_an_n_is_a_fraction_of_n() -> None:
    odd, count = set[tuple[str, str]](), 0
    for path in CONFIGS.glob("*.yaml"):
        for row in (read_yaml(path).get("published") or {}).values():
            shares, count = dict(find_published_shares(row)), count + 1
            no_share = {*(row.get("n") or {})} & {*row["accuracy"]} - {*shares}
            odd |= {(path.stem, task) for task in no_share}
            assert all(0 <= k <= n for k, n in shares.values()), path.stem
    assert odd == {("dysm_bench", "visual_closure")} and count > 50


@pytest.mark.parametrize(("n", "m"), [(12, 30), (24, 40)])
def test_the_interval_of_two_samples_has_nominal_coverage(n: int, m: int) -> None:
    """The coverage of the true difference, over all outcomes and a grid of shares."""
    ends = np.array([
        [(gap.low, gap.high) for gap in (compare_shares(k, n, o, m) for o in range(m + 1))]
        for k in range(n + 1)
    ])  # fmt: skip

    def chance(p: float, q: float) -> float:
        holds = (ends[..., 0] <= p - q + 1e-12) & (ends[..., 1] >= p - q - 1e-12)
        first: NDArray[np.float64] = binom.pmf(np.arange(n + 1), n, p)
        return float(first @ holds @ binom.pmf(np.arange(m + 1), m, q))

    grid = np.linspace(0.02, 0.98, 25).tolist()
    assert min(chance(p, q) for p in grid for q in grid) > 0.95


@pytest.mark.parametrize(
    ("k", "n", "other", "of"), [(3, 10, 8, 12), (0, 5, 5, 5), (124, 124, 0, 3), (7, 7, 9, 9)]
)
def test_p_is_that_of_fisher(k: int, n: int, other: int, of: int) -> None:
    gap, counts = compare_shares(k, n, other, of), np.array([[k, n - k], [other, of - other]])
    assert gap.p == pytest.approx(fisher_exact(counts)[1])
    assert gap.low <= gap.value == k / n - other / of <= gap.high


def test_a_run_is_compared_with_rows_that_give_their_n(tmp_path: Path) -> None:
    """Nine of ten cups against 20 of 100. A mean that is no share of its n, a row of another split
    and one without n are not compared."""
    counts = {"cups": 100, "balls": 7}
    published = {
        "weak": {"source": "x", "n": counts, "accuracy": {"cups": 20, "balls": 50}},
        "other": {"source": "x", "split": "test", "n": counts, "accuracy": {"cups": 20}},
        "bare": {"source": "x", "accuracy": {"cups": 20}},
    }
    table = make_published_gap_table(score_table(run(tmp_path, 9, published, "val").path))
    gap = compare_shares(9, 10, 20, 100)
    assert table.header == ("contestant", "minus", "cups")
    interval = f"[{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
    assert table.rows == [("plain", "weak", f"+70.0*\n{interval}")]


def test_a_star_is_corrected_over_the_table(tmp_path: Path) -> None:
    """Nine of ten against 6 of 12 has p = 0.07, against 4 of 12 p = 0.01: a star in a table of one
    row, none in one of twenty. Uncorrected, one in three tables without a difference had a star."""
    of = {"source": "x", "n": {"cups": 12}, "accuracy": {"cups": 100 / 3}}
    stars = []
    for count in (1, 20):
        published = {f"row {number}": of for number in range(count)}
        folder = tmp_path / str(count)
        shown = make_published_gap_table(score_table(run(folder, 9, published, "val").path))
        assert len(shown.rows) == count
        stars.append({"*" in row[2] for row in shown.rows})
    assert compare_shares(9, 10, 4, 12).p == pytest.approx(0.0115, abs=0.001)
    assert stars == [{True}, {False}]


def test_finding_three_of_vlm2_is_the_difference_of_two_columns() -> None:
    published = yaml.safe_load((CONFIGS / "vlm2_bench.yaml").read_text())["published"]
    best = [published[name]["accuracy"] for name in published if re.search("2.5-VL|VL2.5", name)]
    gaps = dict[str, float]()
    for task in ("cpr.pair_accuracy", "cnt.numeric_official", "grp"):
        gaps[task[:3]] = float(np.mean([row[f"pc_{task}"] - row[f"oc_{task}"] for row in best]))
    assert len(best) == 3
    assert gaps == pytest.approx({"cpr": 7.65, "cnt": 9.75, "grp": 11.83}, abs=0.005)
