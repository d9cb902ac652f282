"""Chance and guesses: even, repeatable, and only where they are asked for."""

import pytest

from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.specialists.answers import Chance, Count, FaceIdentity, Guess, SameIdentity
from tests.specialists.samples import SAME, SOME, asked, faces, finds
from tests.specialists.scenes import run_stage, sample


def chances(count: int, slot: str = "chance", **other: int) -> list[str | None]:
    samples = [sample(choices=4, name=str(n)) for n in range(count)]
    return [run_stage(Chance(slot), each, **other).answer for each in samples]


def test_chance_is_even_repeatable_and_differs_by_sample_draw_and_seed() -> None:
    many = chances(800)
    assert all(150 <= many.count(letter) <= 250 for letter in "ABCD")
    assert chances(50) == many[:50]
    for others in (chances(50, seed=1), chances(50, draw=1), chances(50, "else")):
        assert others != many[:50]


def test_chance_has_nothing_to_draw_from() -> None:
    state = run_stage(Chance(), sample(choices=0))
    assert (state.answer, state.reason) == (None, "abstained: there are no choices to draw from")


def guessed(rule: Stage, sample: Sample, seed: int = 0) -> State:
    return rule(State(sample, seed=seed), NoModel())


def test_a_guess_is_drawn_noted_and_only_where_there_is_no_evidence() -> None:
    empty, full = Count(finds()), Count(finds(SOME))
    sample = asked("How many cats?", ("1", "2", "3", "4"))
    state = guessed(Guess(empty), sample)
    assert state.answer in set("ABCD")
    assert (state.reason, state.confidence) == ("", 0.25)
    assert state.notes == ("guessed: the detector finds no cats",)
    assert guessed(Guess(full), sample).answer == guessed(full, sample).answer == "A"
    assert guessed(Guess(full), sample).notes == ()
    assert guessed(Guess(empty, on_empty="abstain"), sample).ended


def test_guesses_are_repeatable_and_fair() -> None:
    rule = Guess(Count(finds()))
    samples = [asked("How many cats?", ("1", "2", "3", "4"), name=f"s{n}") for n in range(400)]
    first, again, other = ([guessed(rule, s, seed).answer for s in samples] for seed in (0, 0, 1))
    assert first == again != other
    assert min(first.count(letter) for letter in "ABCD") > 70


def test_an_open_question_is_guessed_only_among_named_answers() -> None:
    sample = asked(SAME, (), 1)
    rule = SameIdentity(FaceIdentity(faces([])))
    assert guessed(Guess(rule), sample).ended
    assert guessed(Guess(rule, among=("T", "F")), sample).answer in ("T", "F")


def test_a_stage_that_asks_is_no_rule_to_guess_for() -> None:
    from looktwice.prompting.turns import Ask

    with pytest.raises(ValueError, match="Ask asks the model"):
        Guess(Ask())
    assert Guess(Chance()).on_empty == "guess"
