"""Confidence from the likelihoods of choices, `When` that saves calls, and votes over styles."""

import math

import numpy as np
import pytest

from looktwice.eval.readers import Robust
from looktwice.pipelines import Pipeline
from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Message, Reply
from looktwice.pipelines.pipeline import NoModel
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask, Vote, When
from looktwice.prompting.turns.ask import with_confidence
from tests.prompting.scenes import Heard, start

ASK = Ask(confidence="choices")


def sure(level: float) -> Reply:
    return Reply("(A)", logprobs=({"(A": math.log(level), "B": math.log(max(1 - level, 1e-9))},))


def test_when_asks_again_only_where_confidence_is_low() -> None:
    for below, calls in ((0.0, 1), (0.69, 1), (0.71, 2), (1.0, 2)):
        heard = Heard(sure(0.7), sure(1.0))
        stages = Pipeline({"ask": ASK, "again": When(ASK, below)})
        state = stages(start(choices=("red", "green")), heard)
        assert len(heard.calls) == calls and state.measures["looked_again"] == calls - 1
        assert state.confidence == pytest.approx(0.7 if calls == 1 else 1.0)


@pytest.mark.parametrize(
    ("candidates", "confidence", "mass"),
    [
        ([{"red": math.log(0.3), "green": math.log(0.1)}], 0.75, 0.4),
        (
            [{"The": 0.0}, {"(": 0.0, "A": -9.0}, {"▁B": math.log(0.5), " (A": math.log(0.5)}],
            0.5,
            1,
        ),
        ([{"A": math.log(0.2), "(A": math.log(0.2), "C": math.log(0.1)}], 0.8, 0.5),
        ([{"A": 0.0}], 1.0, 1.0),
        ([{"a": 0.0, "dog": -1.0}], None, None),
        ([], None, None),
    ],
)
def test_the_first_token_that_names_a_choice_counts(
    candidates: list[dict[str, float]], confidence: float | None, mass: float | None
) -> None:
    state = start(choices=("red", "green", "blue"))
    after = with_confidence(state, Reply("A", logprobs=tuple(candidates)))
    assert after.confidence == (confidence and pytest.approx(confidence))
    assert after.measures.get("choice_mass") == (mass and pytest.approx(mass))
    assert ("no likelihood" in "".join(after.notes)) == (confidence is None)


def test_confidence_asks_for_likelihoods_and_an_unknown_one_is_low() -> None:
    heard = Heard("A")
    again = When(Ask(), 0.5)
    assert again(start(), heard).measures["looked_again"] == 1
    assert again.asks and not When(Circles()).asks
    sure = When(Circles(), 0.9)(start().replace(confidence=0.9), NoModel())
    assert sure.measures == {"looked_again": 0}
    Ask(confidence="choices")(start(), heard)
    assert [options.logprobs for *_, options in heard.calls] == [None, 20]


def test_votes_go_over_styles_in_turn() -> None:
    scene = start(Point("A", 60, 50), choices=("red", "green"))
    heard = Heard("A", "B", "A")
    styles = tuple(Circles(color=color) for color in ("red", "blue"))
    after = Vote(Robust(), n=3, styles=styles)(scene, heard)
    shown = [messages[-1].views[0].pixels for messages, *_ in heard.calls]
    assert np.array_equal(shown[0], shown[2]) and not np.array_equal(shown[0], shown[1])
    assert after.answer == "A"
    assert after.confidence == pytest.approx(2 / 3)
    assert isinstance(heard.calls[0][0][-1], Message)
