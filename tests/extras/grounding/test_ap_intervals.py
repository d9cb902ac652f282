"""The intervals of average precision: their limits and their coverage."""

from collections.abc import Hashable, Sequence

import numpy as np
import pytest

from looktwice.eval.scoring.row import Row, fill_row
from looktwice.eval.statistics.intervals import Estimate
from looktwice.extras.grounding import PlacesScorer
from looktwice.extras.grounding.ap_intervals import estimate_precision, find_limits
from looktwice.extras.grounding.mean_ap import Scene, compute_average_precision
from looktwice.extras.grounding.places import Place
from tests.extras.grounding.scenes import draw_scene, make_row, make_scene, score
from tests.optional import optional

optional("faster_coco_eval")
CUP = {"label": "cup", "box": [10, 10, 60, 60]}
FOUND = '[{"label": "cup", "box": [10, 10, 60, 60], "score": 0.9}]'
RIGHT = Scene((Place((10, 10, 60, 60), "cup", 0.9),), (Place((10, 10, 60, 60), "cup"),))
WRONG = Scene((Place((70, 10, 99, 60), "cup", 0.8),), (Place((10, 10, 60, 60), "cup"),))


def estimate_ap(scenes: Sequence[Scene], clusters: Sequence[Hashable] | None = None) -> Estimate:
    return estimate_precision(scenes, clusters or range(len(scenes)))["ap"]


def test_every_figure_has_an_interval_around_it() -> None:
    rng = np.random.default_rng(4)
    scenes = [make_scene(*draw_scene(rng, True)) for _ in range(12)]
    estimates = estimate_precision(scenes, range(12))
    assert {name: one.value for name, one in estimates.items()} == compute_average_precision(scenes)
    for one in estimates.values():
        assert 0 <= one.low < one.value < one.high <= 1 and one.high - one.low > 0.02


@pytest.mark.parametrize(
    ("scenes", "clusters", "limits"),
    [
        ([RIGHT], None, (0, 1)),
        ([RIGHT, WRONG], "aa", (0, 1)),
        ([RIGHT] * 40, None, (1 - 3.84 / 43.84, 1)),  # Wilson's limit after 40 of 40
        ([WRONG] * 40, None, (0, 3.84 / 43.84)),
    ],
)
def test_few_or_equal_images_leave_room(
    scenes: list[Scene], clusters: str | None, limits: tuple[float, float]
) -> None:
    one = estimate_ap(scenes, clusters)
    assert (one.low, one.high) == pytest.approx(limits, abs=1e-3)


def test_the_interval_is_moved_by_the_bias_of_the_draws() -> None:
    low, high = find_limits(0.4, [0.40, 0.50] * 50, 200)  # 0.05 too high on average
    assert (low + high) / 2 == pytest.approx(0.35, abs=0.01)
    assert high - low == pytest.approx(4 * 0.05, rel=0.1)


def test_images_of_one_cluster_are_drawn_together() -> None:
    scenes = [RIGHT, RIGHT, RIGHT, WRONG, WRONG, WRONG] * 4
    alone, together = estimate_ap(scenes), estimate_ap(scenes, [n // 3 for n in range(24)])
    assert together.clusters == 8 and together.value == alone.value
    assert together.high - together.low > 1.3 * (alone.high - alone.low)


def test_without_a_true_box_there_is_no_figure() -> None:
    assert estimate_precision([Scene(RIGHT.found_places, ())], "a") == {}


def test_the_interval_reaches_the_row_of_the_report() -> None:
    rows = [make_row(number, [CUP]) for number in range(12)]
    scorer = PlacesScorer("boxes", mean_ap=True)
    metrics = scorer.metrics(score(scorer, [FOUND] * 9 + ["[]"] * 3, rows))
    (own,) = [metric for metric in metrics if metric.name == "ap"]
    row = fill_row(Row("run", "p", "plain", "task", "", "ap", None), own)
    assert row.value is not None and row.low is not None and row.high is not None
    assert row.value == own.value
    assert 0.4 < row.low < 0.6 < row.value < row.high <= 1


@pytest.mark.slow
def test_intervals_of_simulated_scenes_contain_the_figure_of_many() -> None:
    rng = np.random.default_rng(1)
    many = [make_scene(*draw_scene(rng, True)) for _ in range(2000)]
    true, hits = compute_average_precision(many)["ap"], 0
    for _ in range(40):
        drawn = rng.choice(2000, 50, replace=False)
        one = estimate_ap([many[number] for number in drawn])
        hits += one.low <= true <= one.high
    assert hits >= 32  # of 40; fewer have a chance of 2 % at a coverage of 0.9
