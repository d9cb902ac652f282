"""Intervals of shares: Wilson's for independent units."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from looktwice.eval.statistics.intervals import (
    Stratum,
    bootstrap_mean,
    mean_of_shares,
    share_interval,
    wilson,
)

Floats = NDArray[np.float64]


@pytest.mark.parametrize(
    ("right", "n"), [(0, 1), (1, 1), (0, 20), (13, 20), (20, 20), (37, 60), (399, 400)]
)
def test_independent_units_have_the_wilson_interval(right: int, n: int) -> None:
    values = [1.0] * right + [0.0] * (n - right)
    estimate = share_interval(values, [f"s{number}" for number in range(n)])
    assert (estimate.value, estimate.n, estimate.clusters) == (right / n, n, n)
    theirs = binomtest(right, n).proportion_ci(method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_duplicated_units_add_no_certainty() -> None:
    estimate = share_interval(np.repeat([1.0] * 13 + [0.0] * 7, 10), np.repeat(np.arange(20), 10))
    assert (estimate.low, estimate.high) == pytest.approx(wilson(13, 20), abs=1e-12)
    assert (estimate.n, estimate.clusters) == (200, 20)


@pytest.mark.parametrize(
    ("values", "right"), [([1.0] * 60, 12), ([0.0] * 60, 0), ([1.0, 0.0, 1.0, 0.0, 0.5] * 12, 6)]
)
def test_homogeneous_clusters_count_as_one_unit(values: list[float], right: int) -> None:
    estimate = share_interval(values, np.repeat(np.arange(12), 5))
    assert (estimate.low, estimate.high) == pytest.approx(wilson(right, 12), abs=1e-9)


def test_a_single_cluster_counts_as_one_unit() -> None:
    one = share_interval([1.0, 0.0, 1.0], ["a"] * 3)
    assert (one.low, one.high) == pytest.approx(wilson(2 / 3, 1), abs=1e-9)


def test_sixty_pictures_with_five_questions_each_match_the_bootstrap() -> None:
    """Regression: correlated questions gave 70.0 [64.6, 74.9] instead of [58.1, 81.3]."""
    values = np.repeat([1.0] * 42 + [0.0] * 18, 5)
    values[::7] = 1 - values[::7]
    clusters = np.repeat(np.arange(60), 5)
    estimate, drawn = share_interval(values, clusters), bootstrap_mean(values, clusters)
    assert (estimate.low, estimate.high) == pytest.approx((drawn.low, drawn.high), abs=0.015)
    low, high = wilson(values.sum(), 300)
    assert estimate.high - estimate.low > 1.5 * (high - low)


def test_the_order_and_names_of_clusters_do_not_matter() -> None:
    random = np.random.default_rng(0)
    values, clusters = random.choice([0.1, 0.2, 0.7, 1.0], 90), random.integers(0, 20, 90)
    order = random.permutation(90)
    renamed = [f"c{n}" for n in clusters[order]]
    assert share_interval(values, clusters) == share_interval(values[order], renamed)


def test_a_repeated_task_does_not_narrow_the_interval() -> None:
    """Ten variants with the same difficulty of each question."""
    values = np.array([1.0] * 30 + [0.0] * 20)
    single = share_interval(values)
    same = mean_of_shares([Stratum(values, np.arange(50), 0.1)] * 10)
    assert [same.value, same.low, same.high] == pytest.approx([0.6, single.low, single.high])
    apart = mean_of_shares([Stratum(values, None, 0.1)] * 10)
    assert apart.high - apart.low == pytest.approx((single.high - single.low) / 10**0.5, rel=1e-6)
    assert (same.clusters, apart.clusters) == (50, 500)


def test_strata_without_spread_are_merged_if_they_share_clusters() -> None:
    """Three variants with all answers right have the interval of one variant."""
    (low, _), right = wilson(20, 20), np.ones(20)
    shared = mean_of_shares([Stratum(right, np.arange(20), 1 / 3)] * 3)
    assert (shared.low, shared.high) == pytest.approx((low, 1.0))
    alone = mean_of_shares([Stratum(right, None, 1 / 3)] * 3)
    assert alone.low == pytest.approx(1 - (1 - low) / 3**0.5)
    linked = [Stratum(right, np.arange(start, start + 20), 0.5) for start in (0, 19)]
    assert mean_of_shares(linked).low == pytest.approx(low)


def draw_abilities(random: np.random.Generator, n: int, share: float, alike: float) -> Floats:
    """Return the probability of a right answer for each picture or question."""
    if not alike:
        return np.full(n, share)
    return random.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), n)


def measure_coverage(
    truth: float, draw: Callable[[np.random.Generator], tuple[float, float]], times: int = 400
) -> float:
    ends = [draw(np.random.default_rng(seed)) for seed in range(times)]
    return sum(low <= truth <= high for low, high in ends) / times


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize(("size", "alike"), [(1, 0.0), (4, 0.3), (10, 0.3), (10, 0.8)])
def test_clustered_intervals_have_nominal_coverage(size: int, alike: float, graded: bool) -> None:
    def draw(random: np.random.Generator) -> tuple[float, float]:
        right = np.repeat(draw_abilities(random, 40, 0.6, alike), size)
        estimate = share_interval(
            random.binomial(3, right) / 3 if graded else random.random(len(right)) < right,
            np.repeat(np.arange(40), size),
        )
        return estimate.low, estimate.high

    assert 0.925 <= measure_coverage(0.6, draw) <= 0.98


@pytest.mark.parametrize("variants", [3, 10])
def test_a_mean_over_variants_has_nominal_coverage(variants: int) -> None:
    """Regression: coverage was 79 % for three and 52 % for ten variants."""

    def draw(random: np.random.Generator) -> tuple[float, float]:
        right = draw_abilities(random, 60, 0.6, 0.8)
        values = np.concatenate([random.random(60) < right for _ in range(variants)])
        estimate = share_interval(values, np.tile(np.arange(60), variants))
        return estimate.low, estimate.high

    assert 0.925 <= measure_coverage(0.6, draw) <= 0.98


def test_a_mean_over_tasks_with_shared_pictures_has_nominal_coverage() -> None:
    def draw(random: np.random.Generator) -> tuple[float, float]:
        right = np.repeat(draw_abilities(random, 40, 0.5, 0.4), 3)
        names = np.repeat(np.arange(40), 3)
        estimate = mean_of_shares(
            [Stratum(np.asarray(random.random(120) < right, float), names, 0.25) for _ in range(4)]
        )
        return estimate.low, estimate.high

    assert 0.925 <= measure_coverage(0.5, draw) <= 0.98


@pytest.mark.parametrize("values", [[], [1.2], [0.5, -0.1]])
def test_invalid_shares_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"needs values"):
        share_interval(values)
