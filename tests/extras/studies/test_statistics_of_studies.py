"""Draws, swaps of the order and comparisons of independent groups, computed by hand."""

from math import sqrt

import numpy as np
import pytest

from looktwice.extras.studies.ranks import estimate_swap_rate
from looktwice.extras.studies.steadiness import split_variance
from looktwice.extras.studies.unpaired import compare_means


def test_draws_by_hand() -> None:
    """Rows 1 1, 0 0, 1 0: within (0 + 0 + 1/2) / 3; means of variance 1/4, less within / 2."""
    found = split_variance([[1, 1], [0, 0], [1, 0]])
    assert [found.mean, found.within_samples, found.between_samples] == pytest.approx(
        [1 / 2, 1 / 6, 1 / 6]
    )
    errors = [found.samples_error, found.draws_error]
    assert errors == pytest.approx([sqrt(1 / 18), sqrt(1 / 36)])
    assert found.draw_share == pytest.approx(0.5)
    assert split_variance([[1, 0], [0, 1]]).between_samples == 0.0
    with pytest.raises(ValueError, match="two"):
        split_variance([[1], [0]])


def test_standard_errors_of_draws_and_samples_match_repeated_runs() -> None:
    random = np.random.default_rng(11)
    chances, means, repeats = random.random((4000, 100)), [], []
    for row in chances[:200]:
        repeats.append((random.random((100, 5)) < row[:, None]).mean())
    for row in chances[:200]:
        means.append(split_variance(random.random((100, 5)) < row[:, None]))
    whole = sqrt(np.mean([one.samples_error**2 + one.draws_error**2 for one in means]))
    assert whole == pytest.approx(float(np.std(repeats)), rel=0.15)


def test_swaps_by_hand() -> None:
    """The first contestant leads in two settings and trails in one: two of three pairs disagree."""
    ones, zeros = [1] * 10, [0] * 10
    swaps = estimate_swap_rate([ones, ones, zeros], [zeros, zeros, ones])
    assert swaps.value == pytest.approx(2 / 3)
    assert estimate_swap_rate([ones, ones], [zeros, zeros]).value == 0
    assert estimate_swap_rate([ones, ones], [zeros, ones]).value == 0.5  # a tie in one of them
    with pytest.raises(ValueError, match="two"):
        estimate_swap_rate([ones], [zeros])


def test_p_values_do_not_depend_on_scale() -> None:
    values, others = np.array([3.0, 1.0, 7.0]), np.array([5.0, 9.0, 8.0])
    small = compare_means(values, others, [*range(6)])
    large = compare_means(values * 2.0**1000, others * 2.0**1000, [*range(6)])
    assert small and large and large.p == pytest.approx(small.p)
    assert large.value == pytest.approx(small.value * 2.0**1000)
    assert compare_means(values * 2.0**1021, -others * 2.0**1020, [*range(6)]) is None
