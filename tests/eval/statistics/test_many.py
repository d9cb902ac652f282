"""Factors, choices, ranks and agreement, computed by hand on small tables."""

from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from looktwice.eval.analysis.letters import compute_position_bias
from looktwice.eval.statistics.answers import (
    cohens_kappa,
    compute_majority_value,
    fleiss_kappa,
    swap_rate_over_halves,
)
from looktwice.eval.statistics.contrasts import Cell, contrast, mean_difference
from tests.optional import LazyModule

RANDOM = np.random.default_rng(11)
regression = LazyModule("statsmodels.regression.linear_model")
inter_rater = LazyModule("statsmodels.stats.inter_rater")


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Seed every test with the same numbers, in any order of tests."""
    RANDOM.bit_generator.state = np.random.default_rng(11).bit_generator.state


def test_the_weights_of_an_interaction_by_hand() -> None:
    """The effect of the ring with the zoom minus that without it."""
    cells: list[Cell | None] = [("-", "-"), ("ring", "-"), ("-", "zoom"), None, ("ring", "zoom")]
    ring, zoom = {0: ("ring", "-")}, {1: ("zoom", "-")}
    assert contrast(cells, ring | zoom).tolist() == [1, -1, -1, 0, 1]
    assert contrast(cells, ring).tolist() == [-0.5, 0.5, -0.5, 0, 0.5]
    # then no square is complete, and one pair of cells is left
    assert not contrast(cells[1:], ring | zoom).any()
    assert contrast(cells[1:], ring).tolist() == [0, -1, 0, 1]


def test_effects_are_the_coefficients_of_statsmodels() -> None:
    """A saturated model of three factors coded -1 and 1, with errors clustered by unit."""
    names: list[Cell | None] = [*product("ab", "cd", "ef")]
    n = 60
    values = RANDOM.integers(0, 2, (len(names), n)).astype(float)
    signs = np.array([[1 if level in "bdf" else -1 for level in name or ()] for name in names])
    factors = [[i for i in range(3) if code >> i & 1] for code in range(8)]
    design = np.column_stack([np.prod(signs[:, which], axis=1) for which in factors])
    fitted = regression.OLS(values.ravel(), np.repeat(design, n, axis=0)).fit()
    groups = np.tile(np.arange(n), 8)
    clustered = fitted.get_robustcov_results("cluster", groups=groups, df_correction=True)
    scale = sqrt((8 * n - 8) / (8 * n - 1))  # it corrects for parameters as well
    for code, times, changes in ((1, 2, {0: "ba"}), (2, 2, {1: "dc"}), (3, 4, {0: "ba", 1: "dc"})):
        weights = contrast(names, {i: (pair[0], pair[1]) for i, pair in changes.items()})
        estimate = mean_difference(weights @ values)
        assert estimate.value == pytest.approx(times * clustered.params[code])
        low, high = times * clustered.conf_int()[code]
        assert estimate.high - estimate.low == pytest.approx((high - low) * scale, rel=0.05)


def test_a_mean_difference_treats_clusters_as_statsmodels_does() -> None:
    names = np.repeat(np.arange(40), RANDOM.integers(1, 5, 40))
    gaps = RANDOM.choice([-1.0, 0.0, 1.0], size=len(names))
    fitted = regression.OLS(gaps, np.ones(len(gaps))).fit()
    low, high = fitted.get_robustcov_results("cluster", groups=names).conf_int()[0]
    estimate = mean_difference(gaps.tolist(), names.tolist())
    assert estimate.value == pytest.approx((low + high) / 2)
    assert estimate.high - estimate.low == pytest.approx(high - low, rel=0.05)


@pytest.mark.parametrize("gap", [0.0, 1.0, 2.0])
def test_identical_differences_have_an_interval_with_a_positive_width(gap: float) -> None:
    """Also an interaction of 2, which a single difference cannot reach."""
    estimate = mean_difference([gap] * 40)
    assert estimate.value == gap and estimate.high - estimate.low > 0.03 and estimate.low < gap
    assert estimate.high == (gap or pytest.approx(-estimate.low, abs=0.01))


def test_the_majority() -> None:
    assert compute_majority_value(["A", "B", "B"], [1, 0, 0]) == 0
    assert compute_majority_value(["A", "B", None], [1, 0, 0]) == 0.5
    assert compute_majority_value([None, None, "A"], [0, 0, 1]) == 1
    assert compute_majority_value([None], [0]) == 0


def test_halves_disagree_at_the_expected_rate() -> None:
    gaps = RANDOM.choice([1.0, -1.0, 0.0], p=[0.25, 0.2, 0.55], size=400)
    estimate, hits = swap_rate_over_halves(gaps), []
    for _ in range(3000):
        drawn = RANDOM.choice(gaps, 400)
        hits.append((drawn[:200].mean() > 0) != (drawn[200:].mean() > 0))
    assert estimate.value == pytest.approx(np.mean(hits), abs=0.04)
    assert estimate.low <= estimate.value <= estimate.high <= 0.5
    assert swap_rate_over_halves([1.0, 1.0]).value == 0.0
    assert swap_rate_over_halves([0.0, 0.0]).value == 0.5


def test_position_bias_by_hand() -> None:
    """Always A, where A is the key of three of four: recalls 1 and 0, spread 1/2."""
    estimate = compute_position_bias("AAAA", "AAAB")
    assert (estimate.chosen_shares, estimate.key_shares) == (
        {"A": 1.0, "B": 0.0},
        {"A": 0.75, "B": 0.25},
    )
    assert (estimate.recalls, estimate.spread, estimate.n) == ({"A": 1.0, "B": 0.0}, 0.5, 4)
    assert compute_position_bias("AB", "AB").p == 1.0


@pytest.mark.parametrize("letters", ["AB", "ABC", "ABCD", "ABCDEFGH"])
def test_the_test_of_position_bias_is_chi_squared(letters: str) -> None:
    keys, answers = RANDOM.choice(list(letters), 200), RANDOM.choice(list(letters), 200)
    table = [
        [int(np.sum((keys == k) & ((answers == k) == right))) for k in letters]
        for right in (True, False)
    ]
    wanted = chi2_contingency(table, correction=False).pvalue
    assert compute_position_bias(answers.tolist(), keys.tolist()).p == pytest.approx(wanted)


def test_kappas_match_statsmodels() -> None:
    first, second, third = RANDOM.integers(0, 3, (3, 150))
    second = np.where(RANDOM.random(150) < 0.6, first, second)
    table = [[int(np.sum((first == a) & (second == b))) for b in range(3)] for a in range(3)]
    theirs, kappa = inter_rater.cohens_kappa(table), cohens_kappa(first.tolist(), second.tolist())
    assert kappa.value == pytest.approx(theirs.kappa)
    assert (kappa.low, kappa.high) == pytest.approx((theirs.kappa_low, theirs.kappa_upp), abs=0.02)
    raters = [first.tolist(), second.tolist(), third.tolist()]
    counts, _ = inter_rater.aggregate_raters(np.array(raters).T)
    assert fleiss_kappa(raters).value == pytest.approx(inter_rater.fleiss_kappa(counts))
    assert cohens_kappa("AAA", "AAA").value == 1.0


def test_kappa_by_hand() -> None:
    """Cohen's kappa: agreement 3/4 where chance gives 1/2."""
    assert cohens_kappa("AABB", "AABA").value == pytest.approx((0.75 - 0.5) / 0.5)
    assert fleiss_kappa(["AABB", "AABA"]).value == pytest.approx((0.75 - 34 / 64) / (30 / 64))
    with pytest.raises(ValueError, match="same items"):
        cohens_kappa("AA", "A")
    with pytest.raises(ValueError, match="same items"):
        fleiss_kappa(["AA"])
