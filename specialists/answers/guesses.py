"""Random answers that ignore the images: as a baseline, and when a rule abstains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from looktwice.pipelines.model import Model
from looktwice.pipelines.state import Stage, State, WithoutModel


@dataclass(frozen=True)
class Chance(WithoutModel):
    """Uniform random baseline over the sample's choices; abstains if there are none.

    The answer depends on the run's seed, the sample, the draw and `slot`; two guesses with
    different slots are independent.
    """

    slot: str = "chance"

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with a random answer."""
        letters = state.sample.letters
        if not letters:
            return state.abstain("there are no choices to draw from")
        return draw_answer(state, letters, self.slot)


def draw_answer(state: State, answers: Sequence[str], slot: str) -> State:
    """Return the state with one of these answers, drawn uniformly at random."""
    drawn = answers[int(state.rng(slot).integers(len(answers)))]
    return state.replace(answer=drawn, reason="", confidence=1 / len(answers))


@dataclass(frozen=True)
class Guess(WithoutModel):
    """Answers as `rule` does; if `rule` abstains, draws a letter of the sample uniformly at random.

    Specialists never guess by themselves; `on_empty: abstain` disables the guess. Each guess adds a
    note that begins with `NOTE` and gives the reason, so that guesses can be counted.
    `among` lists the answers to draw from if a sample has no choices, such as [T, F]; without it
    the stage abstains. The answer depends on the run's seed, the sample, the draw and `slot`.
    """

    rule: Stage
    on_empty: Literal["guess", "abstain"] = "guess"
    among: tuple[str, ...] = ()
    slot: str = "guess"

    NOTE: ClassVar[str] = "guessed: "

    def __post_init__(self) -> None:
        if getattr(self.rule, "asks", True):
            raise ValueError(
                f"{type(self.rule).__name__} calls the model; Guess can only wrap a rule that"
                " does not"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the rule's answer, or with a random one."""
        after = self.rule(state, model)
        answers = state.sample.letters or self.among
        if not after.ended or self.on_empty == "abstain" or not answers:
            return after
        why = after.reason.removeprefix("abstained: ")
        return draw_answer(after, answers, self.slot).with_notes(f"{self.NOTE}{why}")
