"""Paired comparisons: computed by hand, with scipy and with statsmodels."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap, multinomial, norm

from looktwice.eval.statistics import compare_paired
from looktwice.eval.statistics.contrasts import mean_difference
from looktwice.eval.statistics.intervals import bootstrap_mean, cluster_codes, wilson
from looktwice.eval.statistics.paired import (
    MCNEMAR_TEST,
    SIGN_FLIP_TEST,
    benjamini_hochberg,
    compute_detectable_difference,
    holm,
    mcnemar_p,
    sign_flip_p,
)
from tests.optional import LazyModule
from tests.tables import table

multitest = LazyModule("statsmodels.stats.multitest")
RANDOM = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Seed every test with the same numbers, in any order of tests."""
    RANDOM.bit_generator.state = np.random.default_rng(7).bit_generator.state


def test_a_table_by_hand() -> None:
    """The first alone is right on 4 of 10, the second alone on 1: p = 2 * 6/32."""
    mine, theirs = [1, 1, 1, 1, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 0, 0, 0]
    comparison = compare_paired(mine, theirs)
    assert comparison.value == pytest.approx(0.3)
    assert (comparison.p, comparison.n, comparison.clusters) == (0.375, 10, 10)
    assert (comparison.better, comparison.worse, comparison.test) == (4, 1, MCNEMAR_TEST)
    assert comparison.low < 0 < 0.3 < comparison.high
    assert compare_paired([0.5, 1], [0, 1]).test == SIGN_FLIP_TEST
    assert comparison == compare_paired(mine, theirs)  # the same at every call


def test_p_belongs_to_the_difference_that_is_shown() -> None:
    """60 are better by a third, 30 worse by two thirds."""
    comparison = compare_paired([1 / 3] * 60 + [0.0] * 30, [0.0] * 60 + [2 / 3] * 30)
    assert comparison.value == pytest.approx(0) and comparison.low < 0 < comparison.high
    assert comparison.p > 0.9 and comparison.test == SIGN_FLIP_TEST
    assert compare_paired([0.5] * 9 + [0.0], [0.0] * 9 + [0.5]).p == pytest.approx(2 * 11 / 2**10)


@pytest.mark.parametrize(
    ("better", "worse"), [(0, 0), (0, 1), (0, 12), (3, 1), (7, 7), (40, 61), (9000, 9200)]
)
def test_p_values_match_the_binomial_test_of_scipy(better: int, worse: int) -> None:
    mine = np.repeat([1.0, 0.0, 0.0], [better, worse, 3])
    theirs = np.repeat([0.0, 1.0, 0.0], [better, worse, 3])
    wanted = binomtest(better, better + worse, 0.5).pvalue if better + worse else 1.0
    assert compare_paired(mine, theirs).p == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("gaps", "p"), [([1.0] * 5, 2 / 2**5), ([1.0, 0.5, 0.0], 0.5), ([1.0, -1.0], 1.0), ([0.0], 1.0)]
)
def test_the_sign_flip_test_is_exact_for_few_pairs(gaps: list[float], p: float) -> None:
    assert mean_difference(gaps).p == pytest.approx(p)


@pytest.mark.parametrize(
    ("better", "worse"),
    [(9, 2), (10, 3), (11, 3), (40, 40), (60, 40), (0, 30), (5300, 5120), (5001, 5001)],
)
def test_equal_differences_flip_signs_like_coins(better: int, worse: int) -> None:
    """All sign patterns for up to 13 differences, else drawn ones and the observed one."""
    p = sign_flip_p([0.5] * better + [-0.5] * worse + [0.0] * 7)
    exact = binomtest(better, better + worse).pvalue
    assert p == pytest.approx(exact, abs=1e-9 if better + worse <= 13 or exact == 1 else 0.008)
    assert p >= 1 / 10_001


@pytest.mark.parametrize(("method", "ours"), [("holm", holm), ("fdr_bh", benjamini_hochberg)])
def test_corrections_match_statsmodels(method: str, ours: object) -> None:
    ps = [*RANDOM.random(30), 0.01, 0.01, 0.0, 1.0]
    assert callable(ours)
    assert ours(ps) == pytest.approx(multitest.multipletests(ps, method=method)[1])
    assert ours([]) == []


def test_the_interval_approaches_that_of_scipy_with_much_data() -> None:
    gaps = RANDOM.choice([1.0, -1.0, 0.0], p=[0.25, 0.15, 0.6], size=2000)
    theirs = bootstrap((gaps,), np.mean, method="percentile", n_resamples=2000, rng=0)
    estimate = bootstrap_mean(gaps, floor=-1.0)
    wanted = tuple(theirs.confidence_interval)
    assert (estimate.low, estimate.high) == pytest.approx(wanted, abs=0.004)


def test_duplicated_items_add_no_certainty() -> None:
    """Each item ten times over, as one cluster."""
    mine, theirs = RANDOM.integers(0, 2, (2, 80)).astype(float)
    single, names = compare_paired(mine, theirs), np.repeat(np.arange(80), 10).tolist()
    copies = compare_paired(np.repeat(mine, 10), np.repeat(theirs, 10), names)
    assert (copies.n, copies.clusters, copies.test) == (800, 80, SIGN_FLIP_TEST)
    assert (copies.low, copies.high) == pytest.approx((single.low, single.high), abs=0.01)
    assert copies.p == pytest.approx(single.p, abs=0.02)
    assert copies.detectable == pytest.approx(single.detectable)


def test_equal_answers_have_an_interval_with_a_positive_width() -> None:
    comparison = compare_paired([1, 0, 1] * 20, [1, 0, 1] * 20)
    assert (comparison.value, comparison.p, comparison.better, comparison.worse) == (0.0, 1.0, 0, 0)
    assert comparison.high == -comparison.low == pytest.approx(wilson(0, 60)[1])
    same, names = [1, 0, 1, 1] * 15, np.repeat(np.arange(12), 5).tolist()
    # twelve pictures are no more certain than twelve samples
    assert compare_paired(same, same, names).high == pytest.approx(wilson(0, 12)[1])
    all_right = bootstrap_mean([1.0] * 20)
    assert (all_right.low, all_right.high) == pytest.approx(wilson(20, 20))


def compute_coverage(n: int, up: float, down: float) -> float:
    """Return the probability that the interval of n pairs covers the difference."""
    held = 0.0
    for gained, lost in ((a, b) for a in range(n + 1) for b in range(n + 1 - a)):
        same, shares = n - gained - lost, [up, down, 1 - up - down]
        likely = float(multinomial.pmf([gained, lost, same], n, shares))
        if likely > 1e-7:
            gaps = [1.0] * gained + [-1.0] * lost + [0.0] * same
            estimate = bootstrap_mean(gaps, floor=-1.0)
            held += likely * (estimate.low - 1e-9 <= up - down <= estimate.high + 1e-9)
    return held


@pytest.mark.parametrize(
    ("n", "up", "down"), [(12, 0.15, 0.0), (12, 0.2, 0.05), (48, 0.05, 0.0), (48, 0.01, 0.01)]
)
def test_intervals_of_few_items_that_differ_do_not_collapse(n: int, up: float, down: float) -> None:
    """Most resamples contain hardly any difference."""
    assert compute_coverage(n, up, down) > 0.94


@pytest.mark.parametrize("given", [([], [], None), ([1], [1, 0], None), ([1, 0], [1, 1], ["a"])])
def test_an_empty_comparison_is_refused(
    given: tuple[list[int], list[int], list[str] | None],
) -> None:
    with pytest.raises(ValueError, match=r"paired test|interval"):
        compare_paired(*given)


@pytest.mark.parametrize(("differing", "n"), [(0, 100), (3, 12), (20, 60), (10, 124), (300, 1000)])
def test_the_exact_test_has_80_percent_power_at_the_detectable_difference(
    differing: int, n: int
) -> None:
    """Regression: it was computed for a normal test: 6 points for 0 of 100 discordant pairs, which
    the exact test detects in 56 % of runs."""
    estimate, hits = (
        compute_detectable_difference(np.repeat([1.0, 0.0], [differing, n - differing])),
        0,
    )
    share, random = max(differing / n, estimate), np.random.default_rng(0)
    for count in random.binomial(n, share, 2000):
        gained = np.arange(n) < random.binomial(count, (1 + estimate / share) / 2)
        lost = ~gained & (np.arange(n) < count)
        hits += mcnemar_p(int(gained.sum()), int(lost.sum())) < 0.05
    assert hits / 2000 == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("share", "n"), [(0.2, 10_000), (0.3, 4000), (0.05, 190_000)])
def test_the_detectable_difference_solves_connor_s_equation(share: float, n: int) -> None:
    differing = round(share * n)
    d = compute_detectable_difference(np.repeat([1.0, 0.0], [differing, n - differing]))
    s = norm.ppf(0.975) * sqrt(share) + norm.ppf(0.8) * sqrt(share - d * d)
    assert s**2 / d**2 == pytest.approx(n)


def test_at_least_six_units_must_differ() -> None:
    # six or more of a hundred in 80 %
    assert compute_detectable_difference([0.0] * 100) == pytest.approx(0.078, abs=0.001)
    assert compute_detectable_difference([1.0, 0.0]) == 1.0


def test_equal_clusters_of_several_samples_have_a_detectable_difference() -> None:
    assert all(compute_detectable_difference([1 / 7] * n) <= 1 for n in range(2, 11))


def measure_coverage(n: int, up: float, down: float, size: int = 1, times: int = 300) -> float:
    """Return the share of intervals that cover the true difference."""
    kinds, shares = [1.0, -1.0, 0.0], [up, down, 1 - up - down]
    names, hits = np.repeat(np.arange(n // size), size).tolist(), 0
    for seed in range(times):
        random = np.random.default_rng(seed)
        own = random.choice(kinds, p=shares, size=(n // size, size))
        # half of the units of a cluster are equal to its first
        gaps = np.where(random.random(own.shape) < 0.5, own[:, :1], own).ravel()
        estimate = bootstrap_mean(gaps, names, floor=-1.0, resamples=800)
        hits += estimate.low <= up - down <= estimate.high
    return hits / times


@pytest.mark.parametrize(
    ("n", "up", "down", "size"), [(150, 0.1, 0.1, 1), (150, 0.3, 0.1, 1), (400, 0.15, 0.05, 4)]
)
def test_intervals_have_nominal_coverage(n: int, up: float, down: float, size: int) -> None:
    assert 0.93 <= measure_coverage(n, up, down, size) <= 0.97


@pytest.mark.slow
@table
def test_intervals_of_few_differing_clusters(
    n: int, up: float, down: float, size: int, least: float, most: float
) -> None:
    """Clusters that only gain or only lose."""
    assert least <= measure_coverage(n, up, down, size, 1000) <= most


@table
def test_the_weight_of_added_values(values: list[list[float]], low: float, high: float) -> None:
    """The interval of independent clusters is unchanged."""
    names = np.repeat(np.arange(len(values)), [len(cluster) for cluster in values])
    estimate = bootstrap_mean(np.concatenate(values), names, floor=-1.0)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=0.002)


@pytest.mark.slow
@table
def test_differences_over_tasks(
    tasks: list[list[float]], pictures: int, shared: float, size: int
) -> None:
    """Each task gains on one share of its pictures and loses on another; tasks share pictures."""
    truth, hits = float(np.mean([up - down for up, down in tasks])), 0
    places = np.arange(pictures)
    for seed in range(400):
        random, gaps, names = np.random.default_rng(seed), list[float](), list[int]()
        for number, (up, down) in enumerate(tasks):
            own = random.choice([1.0, -1.0, 0.0], p=[up, down, 1 - up - down], size=pictures * size)
            gaps += own.tolist()
            picture = np.where(places < shared * pictures, places, places + 1000 * (number + 1))
            names += np.repeat(picture, size).tolist()
        strata = np.repeat(np.arange(len(tasks)), pictures * size)
        estimate = bootstrap_mean(gaps, names, floor=-1.0, resamples=500, strata=strata)
        hits += estimate.low <= truth <= estimate.high
    assert 0.925 <= hits / 400 <= 0.975


def test_equal_tasks_have_an_interval_with_a_positive_width() -> None:
    """One task is won throughout and the other lost; a task with one sample is unchanged."""
    gaps, strata = [1.0] * 20 + [-1.0] * 20, [0] * 20 + [1] * 20
    comparison = compare_paired([1.0] * 20 + [0.0] * 20, [0.0] * 20 + [1.0] * 20, None, strata)
    assert comparison.value == 0 and comparison.high == pytest.approx(wilson(0, 40)[1])
    pooled = bootstrap_mean(gaps, floor=-1.0)
    assert comparison.high < pooled.high / 2
    assert bootstrap_mean(gaps, floor=-1.0, strata=[*range(40)]) == pooled
    assert bootstrap_mean(gaps, floor=-1.0, strata=[3] * 40) == pooled


def test_clusters_may_be_given_as_numbers() -> None:
    names = ["b", "a", "b", "c", "c", "d"]
    values, others = [1, 0, 1, 1, 0.5, 0], [0, 0, 1, 0, 1, 1]
    comparison = compare_paired(values, others, cluster_codes(names, 6))
    assert comparison == compare_paired(values, others, names) != compare_paired(values, others)
