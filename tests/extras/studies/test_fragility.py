"""Marker fragility: R and spreads of known vectors, planted flips, and the published table."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from bench.bench_fragility import draw_study
from looktwice.eval import RunFolder, find, score_table
from looktwice.eval.display.text_tables import table as text_table
from looktwice.eval.runs import Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import holm, mcnemar_p
from looktwice.extras.studies.fragility import (
    FRAGILITY_COLUMNS,
    Fragility,
    make_fragility_table,
    measure_fragilities,
    simulate_spreads,
)
from looktwice.extras.studies.fragility_key import expand_fragility
from looktwice.extras.studies.ranks import find_rank_flips
from looktwice.extras.toolkits.styles import DRAWINGS, VPBenchStyleName
from looktwice.pipelines.config import ConfigError, load_plan
from looktwice.pipelines.config.classes import Faults
from tests.made_run import MadeRun, analyse, join_attributes
from tests.paths import CONFIGS, DATA
from tests.tables import read_yaml, table

METHODS = DATA / "methods"
needs_vectors = pytest.mark.skipif(
    not METHODS.exists(), reason="the published numbers are not here"
)
SETS = {
    "BLINK Relative Depth": "BLINK depth",
    "BLINK Semantic Correspondence": "BLINK correspondence",
    "DA-2K Relative Depth": "DA-2K depth",
    "SPair-71K Semantic Correspondence": "SPair correspondence",
}
STUDY = """
tasks: {shape: {use: eval.tasks.MarkedScenes, kind: shape, n: 6}}
models:
  a: {use: pipelines.models.Scripted, answer: (A)}
stages:
  mark: {use: prompting.markers.Circles}
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
fragility: {styles: [default, radius 3], codecs: [png, jpeg70]}
contestants:
  plain: {}
  chance: {replace: true, stages: {answer: {use: specialists.answers.Chance}}}
"""


def variants(
    name: str, *rows: str | Sequence[float], clusters: Sequence[str] | None = None
) -> Fragility:
    names = clusters or [f"s{number}" for number in range(len(rows[0]))]
    samples = {f"s{number}": cluster for number, cluster in enumerate(names)}
    draws = {f"style {n}": [[float(bit)] for bit in row] for n, row in enumerate(rows)}
    return Fragility.from_draws(name, "t", draws, samples)


@table
def test_r_at_its_extremes(base: str, others: list[str], ratio: float | None) -> None:
    fragility = (variants("a", base, *others)).ratio
    assert (fragility and fragility.value) == ratio


@needs_vectors
def test_r_of_the_score_vectors() -> None:
    for case in json.loads((METHODS / "vpbench_targets.json").read_text())["R_vectors"]:
        fragility = (variants("a", case["base"], *case["variants"])).ratio
        assert (fragility and fragility.value) == pytest.approx(case["R"], abs=1e-6)


def test_differences_and_spread_by_hand() -> None:
    fragility = variants("a", "1" * 30 + "0" * 10, "1" * 20 + "0" * 20, "1" * 36 + "0" * 4)
    assert (fragility.means[0], *fragility.worst_and_best) == (0.75, "style 1", "style 2")
    assert fragility.spread and fragility.spread.value == pytest.approx(0.4)
    worse, better = fragility.shifts
    assert join_attributes(worse.delta, "better worse") == (0, 10)
    assert join_attributes(better.delta, "better worse") == (6, 0)
    assert [worse.delta.value, better.delta.value] == pytest.approx([-0.25, 0.15])
    assert worse.is_significant and better.is_significant
    assert worse.delta.low < -0.25 < worse.delta.high < 0
    same = variants("a", "1100", "1100")
    assert not same.shifts[0].is_significant and same.ratio == Estimate(0.0, 0.0, 0.0, 4, 4)


def test_resamples_are_paired_and_reproducible() -> None:
    spread = (variants("a", "10" * 20, "10" * 20)).spread
    assert spread == Estimate(0.0, 0.0, 0.0, 40, 40)  # unpaired resamples would create a difference
    ratios = {variants("a", "10" * 20, "1100" * 10).ratio for _ in range(2)}
    assert len(ratios) == 1


def test_samples_of_one_picture_are_resampled_together() -> None:
    """Every sample four times as one cluster has the intervals of the samples, not half as wide
    ones."""
    table = np.random.default_rng(5).integers(0, 2, (3, 50))
    fourfold, clusters = np.repeat(table, 4, axis=1), [f"picture {n // 4}" for n in range(200)]
    one, four = variants("a", *table), variants("a", *fourfold, clusters=clusters)
    for mine, theirs in ((one.ratio, four.ratio), (one.spread, four.spread)):
        assert mine and theirs and theirs.clusters == mine.clusters
        ends = (mine.value, mine.low, mine.high)
        assert (theirs.value, theirs.low, theirs.high) == pytest.approx(ends)
    for shift, copy in zip(one.shifts, four.shifts, strict=True):
        edges = (shift.delta.low, shift.delta.high)
        assert (copy.delta.low, copy.delta.high) == pytest.approx(edges, abs=0.02)
    (flip,) = find_rank_flips([one, variants("b", *(1 - table))])
    (copied,) = find_rank_flips([four, variants("b", *(1 - fourfold), clusters=clusters)])
    assert (
        copied.default_flip_share == pytest.approx(flip.default_flip_share, abs=0.02)
        and flip.default_flip_share > 0.05
    )


def test_a_planted_flip_is_found_and_sampling_noise_alone_is_not() -> None:
    leader = variants("leader", "1" * 60 + "0" * 40, "1" * 30 + "0" * 70)
    other = variants("other", "1" * 40 + "0" * 60, "1" * 50 + "0" * 50)
    (flip,) = find_rank_flips([other, leader])
    assert (flip.leader, flip.follower, flip.reversal_count, flip.variant_count) == (
        "leader",
        "other",
        1,
        2,
    )
    assert (flip.lead, flip.default_flip_share, flip.flip_share) == pytest.approx((0.2, 0, 0.5))
    assert not list(find_rank_flips([leader, leader]))  # tied: no winner


@pytest.mark.parametrize("draws", [2, 8])
def test_more_draws_neither_remove_nor_create_an_effect(draws: int) -> None:
    alike, differing = (draw_study(np.random.default_rng(4), moved, draws) for moved in (0.0, 0.2))
    assert (
        alike.ratio
        and alike.floor
        and alike.above_floor
        and differing.ratio
        and differing.above_floor
    )
    assert alike.above_floor.low < 0 < alike.above_floor.high and differing.above_floor.low > 0.1
    assert alike.ratio.value == pytest.approx(alike.floor, abs=0.2)
    single = draw_study(np.random.default_rng(5), 0.2, 1)
    assert single.ratio and single.ratio.value == pytest.approx(differing.ratio.value, abs=0.3)
    assert single.floor is None and single.above_floor is None


def test_draws_count_like_separate_samples() -> None:
    """By hand, over every pair of draws: default 1 1, 1 0, 0 0 against 1 0, 0 0, 0 1."""
    drawn = {"default": [[1, 1], [1, 0], [0, 0]], "blue": [[1, 0], [0, 0], [0, 1]]}
    fragility = Fragility.from_draws("a", "t", drawn, {name: name for name in "abc"})
    # each pair of draws differs in half of the cases
    squares = ((0.5 + 0.5 + 0.5) / 3 - (1 / 3 - 1 / 2) ** 2) / 0.25
    assert fragility.ratio and fragility.ratio.value == pytest.approx(squares)
    # only the second sample's draws differ, and always
    assert fragility.floor == pytest.approx((0 + 1 + 0) / 3 / 0.25)


@pytest.mark.slow
def test_sixteen_identical_styles_do_not_differ() -> None:
    """Uncorrected, a style differed in every fifth study; of 200 studies 5 % may, and by chance 8 %
    do."""
    plain, wrong, reached = 0, 0, []
    for seed in range(200):
        fragility = draw_study(np.random.default_rng(seed), 0.0, 1, styles=17, n=150)
        base, *styles = fragility.values.value
        ps = [mcnemar_p(int((row > base).sum()), int((row < base).sum())) for row in styles]
        plain, wrong = plain + (min(ps) < 0.05), wrong + (min(holm(ps)) < 0.05)
        if seed < 30:
            reached.append(fragility.null_spread.p < 0.05)
    assert plain > 30 and wrong <= 16 and sum(reached) <= 5
    study = draw_study(np.random.default_rng(0), 0.0, 1, styles=17, n=60)
    assert [shift.p_holm for shift in study.shifts] == holm(
        [shift.delta.p for shift in study.shifts]
    )
    moved = draw_study(np.random.default_rng(0), 0.4, 1, styles=17, n=200, one_way=True)
    assert all(shift.is_significant for shift in moved.shifts) and moved.null_spread.p < 0.01


def test_the_spread_of_identical_styles_by_hand() -> None:
    """Each of two samples is right in one of two styles: in the same one with probability 1/2 (a
    spread of 1), else a spread of 0."""
    chance = simulate_spreads(np.array([[1.0, 1.0], [0.0, 0.0]]))
    assert chance.mean == pytest.approx(0.5, abs=0.05) and chance.p == pytest.approx(0.5, abs=0.05)
    shared = simulate_spreads(np.array([[1.0, 1.0], [0.0, 0.0]]), ("picture", "picture"))
    assert shared == (1.0, 1.0)  # within one cluster both samples move together
    assert simulate_spreads(np.ones((3, 5))) == (0.0, 1.0)


@needs_vectors
def test_the_shipped_study_holds_the_published_accuracies() -> None:
    published = read_yaml(CONFIGS / "marker_fragility.yaml")["published"]
    shipped = {
        (name, task): value
        for name, row in published.items()
        for task, value in row["accuracy"].items()
        if not task.endswith(" rank")
    }
    rows = [*csv.DictReader((METHODS / "vpbench_marker_acc.csv").read_text().splitlines())]
    assert len(rows) == len(shipped) == 216
    for row in rows:
        value = shipped[f"{row['model']} [{row['marker_style']}]", SETS[row["dataset"]]]
        assert value == pytest.approx(float(row["accuracy"]), abs=0.005)


def test_the_styles_of_the_sweep_are_those_that_are_drawn() -> None:
    assert get_args(VPBenchStyleName) == tuple(DRAWINGS)
    whole = expand_fragility(
        {"stages": {"mark": {}, "ask": {"use": "prompting.turns.Ask"}}, "fragility": {}}, Faults()
    )
    styles, codecs = whole["sweep"].values()
    assert [node["style"] for node in styles] == list(get_args(VPBenchStyleName)[:17])
    assert len(codecs) == 4
    codec = {"codec": "jpeg", "quality": 90, "chroma": "4:2:0", "before": "ask"}
    assert whole["sweep"]["stages.encode"][1] == {"use": "prompting.views.Encode", **codec}


@table
def test_faults_are_reported(tmp_path: Path, change: str, said: str) -> None:
    kept = [line for line in STUDY.splitlines() if not line.startswith("fragility")]
    (tmp_path / "f.yaml").write_text("\n".join([*kept, change]))
    with pytest.raises(ConfigError, match=said):
        load_plan(tmp_path / "f.yaml")


def test_one_key_varies_the_style_of_a_task_with_marks(tmp_path: Path) -> None:
    rows = {"Other [default]": 80, "Other [radius 3]": 71.5}
    told = {name: {"source": "s", "accuracy": {"set": value}} for name, value in rows.items()}
    published = f"published: {json.dumps(told)}"
    (tmp_path / "f.yaml").write_text(f"{STUDY}\n{published}\n")
    scored = score_table([Study(load_plan(tmp_path / "f.yaml"), tmp_path)().folder])
    (fragility,) = measure_fragilities(scored.scores[0])
    assert fragility.values.arms == ("default", "default, jpeg70", "radius 3", "radius 3, jpeg70")
    table = make_fragility_table(scored)
    assert "floor\nof R" not in table.header  # there is one draw
    mine, theirs = table.rows
    assert mine[:5] == ("plain", "shape", "6", mine[3], "0 of 3")
    ends = ("8.5", "", "radius 3", "default")
    assert theirs == ("Other, published", "set", "", "80.0", "", "", *ends)
    assert len(make_fragility_table(scored, whole=False).rows) == 1
    assert len(analyse("styles", *scored.scores).rows) == 3
    assert not analyse("flips", *scored.scores).rows
    assert not analyse("ranks", *scored.scores).rows
    finding = find(scored)
    assert finding.tasks[0].baseline == "plain (default, encode codec png)"
    jpeg = "encode codec=jpeg, quality=70, chroma=4:2:0"
    assert {row.label for row in finding.rows} == {"plain", "radius 3", jpeg}


def test_a_constant_baseline_has_no_ratio_and_this_is_reported() -> None:
    (line,) = text_table(FRAGILITY_COLUMNS, [variants("m", "1111", "1011")]).rows
    assert line[5] == "none, default\nalways 100.0"


def test_a_failed_draw_is_not_a_second_answer(tmp_path: Path) -> None:
    """Four samples are right, right, wrong and wrong in both draws; a fifth failed its second draw:
    nothing flipped."""
    run = MadeRun(tmp_path / "run")
    run.task("depth", ["A"] * 5)
    for style in ("default", "radius 3"):
        point = run.point("plain", "depth", draws=2, spec={"stages": {"mark": {"style": style}}})
        run.answers(point, "AABBA")
        run.answers(point, "AABB", draw=1)
        run.record(point, "s4", draw=1, error="the server was gone")
    (run.write().path / "run.yaml").write_text("config: {fragility: {}}\n")
    (fragility,) = measure_fragilities(score_run(RunFolder(tmp_path / "run")))
    assert fragility.n == 5 and fragility.floor == 0.0


def test_the_shipped_study_reports_the_published_spreads(tmp_path: Path) -> None:
    """BLINK depth: 7.7 points on average between the best and worst of six styles, at most 15.3."""
    published = read_yaml(CONFIGS / "marker_fragility.yaml")["published"]
    (tmp_path / "f.yaml").write_text(f"{STUDY}\npublished: {json.dumps(published)}\n")
    scored = score_table([Study(load_plan(tmp_path / "f.yaml"), tmp_path)().folder])
    shown = make_fragility_table(scored)
    spread = shown.header.index("best minus\nworst")
    told = {row[1]: row[spread] for row in shown.rows if row[0] == "9 models, published"}
    spreads = zip(("7.7", "10.7", "3.5", "6.9"), ("15.3", "19.2", "4.8", "18.0"), strict=True)
    expected = [f"{mean}\nlargest {most}" for mean, most in spreads]
    assert told == dict(zip(SETS.values(), expected, strict=True))
    shown_ranks = analyse("ranks", *scored.scores).rows
    ranks = {row[1:3]: row[4:8] for row in shown_ranks if row[0] == "published"}
    assert ranks["BLINK depth rank", "jpeg70"][::2] == ("5", "6")
    assert ranks["MME rank", "jpeg90"][0] == "0"
