"""Races: bets that stay fair under the null hypothesis, dropped arms, and the winner on held-out
samples."""

from __future__ import annotations

import numpy as np
import pytest

from looktwice.extras.adaptive.race import PairwiseBets, Race, compute_confidence_sequence


def test_under_the_null_hypothesis_the_capital_rarely_grows() -> None:
    rng, bets = np.random.default_rng(0), PairwiseBets(25)  # 300 pairs
    highest = np.ones((25, 25))
    for _ in range(200):
        bets.add((rng.random(25) < 0.5).astype(float))
        highest = np.maximum(highest, bets.capital)
    above = highest[np.triu_indices(25, 1)] >= 20
    assert above.mean() < 0.07 and np.allclose(np.diag(bets.capital), 1)


def test_a_better_arm_wins_the_bets_and_graded_scores_count() -> None:
    bets = PairwiseBets(3)
    for _ in range(60):
        bets.add(np.array([0.9, 0.5, np.nan]))
    assert bets.capital[0, 1] > 1000 and bets.capital[1, 0] < 1
    assert bets.capital[0, 2] == bets.capital[2, 1] == pytest.approx(1)


def test_a_confidence_sequence_covers_the_mean_and_narrows() -> None:
    rng = np.random.default_rng(2)
    gaps = [float(gap) for gap in rng.choice([-1, 0, 1], 2000, p=[0.1, 0.7, 0.2])]
    (low, high), (early, late) = (
        compute_confidence_sequence(gaps),
        compute_confidence_sequence(gaps[:100]),
    )
    assert low < 0.1 < high and early < 0.1 < late and high - low < 0.15 < (late - early) / 2
    assert compute_confidence_sequence([]) == (-1, 1)
    assert (
        compute_confidence_sequence([0.0] * 50)[0] < 0 < compute_confidence_sequence([0.0] * 50)[1]
    )


def run(accuracies: list[float], samples: int, seed: int) -> Race:
    rng = np.random.default_rng(seed)
    race = Race([f"arm {number}" for number in range(len(accuracies))])
    for _ in range(samples):
        drawn = rng.random()
        right = dict(zip(race.names, (float(drawn < a) for a in accuracies), strict=True))
        race.add({name: right[name] for name in race.remaining})
        if race.winner:
            break
    return race


def test_the_best_arm_remains_and_the_worst_is_dropped_first() -> None:
    race = run([0.5, 0.8, 0.2], 400, 0)
    assert race.winner == "arm 1" and race.rival == "arm 0"
    assert race.dropped["arm 2"][0] < race.dropped["arm 0"][0] < 400
    assert race.answer_count < 3 * len(race.values)


def test_equal_arms_are_not_dropped() -> None:
    race = run([0.5, 0.5, 0.5], 300, 0)
    assert race.winner is None and race.remaining == race.names
    ahead = run([0.5, 0.52, 0.5], 300, 0)
    assert ahead.winner is None and ahead.leader == "arm 1"


def test_a_race_needs_several_arms() -> None:
    with pytest.raises(ValueError, match="two arms or more, found a"):
        Race(["a"])
