"""Guessing preferences of blind models: by hand, bounded false finds, planted leaks, and the
reported power."""

from __future__ import annotations

import numpy as np
import pytest

from bench.bench_audit import BlindModel, audit, list_findings
from looktwice.extras.studies.answer_bias import BlindQuestion, estimate_bias
from looktwice.extras.studies.blindness import select_beyond_bias

TASTED = (
    BlindModel("words", word=0.3),
    BlindModel("letters", letter=0.3),
    BlindModel("letters, never permuted", letter=0.3, permuted=False),
    BlindModel("both", word=0.5, letter=0.5),
    BlindModel("by kind", word=0.3, types=3),
    BlindModel("each question", item=1.0),
)


@pytest.mark.slow
@pytest.mark.parametrize("draws", [6, 10, 20])
def test_guessing_preferences_are_not_leaks(draws: int) -> None:
    """24 blind models: a bound that 1 % of false finds meets almost certainly."""
    any_find, false, _ = np.mean([audit(model, 60, 4, draws, 4) for model in TASTED], axis=0)
    assert any_find <= 1 / 24 and false <= 0.02


@pytest.mark.slow
def test_planted_leaks_are_found_at_the_reported_rate() -> None:
    """At the shipped number of draws, for a model that guesses anew and one with mild word
    preferences."""
    for model in (BlindModel("guesses"), BlindModel("words", word=5.0)):
        _, false, power = audit(model, 100, 4, 16, 6)
        told = estimate_bias(
            model.answer(np.random.default_rng(50), 100, 4, 16, 0.1)[0]
        ).compute_power(16)
        assert false <= 0.05 and power > 0.75 and told == pytest.approx(power, abs=0.2)


def test_more_draws_do_not_help_against_a_model_with_constant_guesses() -> None:
    questions, _ = BlindModel("stubborn", item=0.05).answer(
        np.random.default_rng(0), 80, 4, 20, 0.0
    )
    bias = estimate_bias(questions)
    assert (
        not list_findings(questions)
        and sum(question.right_count >= 16 for question in questions) > 10
    )
    assert (
        bias.compute_power(20) == 0 and bias.find_draws_needed() is None and bias.firm_share > 0.7
    )


def make_question(key: str, word: str) -> BlindQuestion:
    """Return a question with three colours, of which one was said in all ten draws."""
    right, colors = 10 * (word == key), ("red", "blue", "green")
    return BlindQuestion("", "What color?", colors, key, {word: 10}, 10, right)


def test_a_preferred_word_is_distinguished_from_a_known_answer() -> None:
    """Red is said to all questions except five with the key blue, which are known."""
    questions = (
        [make_question("red", "red")] * 30
        + [make_question("blue", "red")] * 15
        + [make_question("green", "red")] * 15
    )
    questions += [make_question("blue", "blue")] * 5
    bias = estimate_bias(questions)
    assert set(bias.p_values[:30]) == {bias.p_values[0]} and bias.p_values[0] > 0.9
    assert (bias.p_values[30:60] == 1).all() and bias.grouping.offer_field in ("letter", "word")
    assert (
        bias.p_values[60] == pytest.approx(bias.compute_tails(10)[60, 10])
        and bias.p_values[60] < 0.001
    )
    assert len(select_beyond_bias(bias)) == 5


def test_tail_probabilities_match_enumeration_and_decrease() -> None:
    questions, _ = BlindModel("words", word=1.0).answer(np.random.default_rng(1), 40, 3, 7, 0.0)
    tails = estimate_bias(questions).compute_tails(7)
    assert (
        tails.shape == (40, 8)
        and np.allclose(tails[:, 0], 1)
        and (np.diff(tails, axis=1) <= 0).all()
    )
    assert estimate_bias(questions).expected_right_share == pytest.approx(
        tails[:, 1:].mean(), abs=1e-9
    )


def test_without_wrong_choices_nothing_is_reported() -> None:
    assert not list_findings([make_question("red", "red")] * 9) and not list_findings([])
