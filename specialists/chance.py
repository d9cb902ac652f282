"""The floor of every comparison: an answer drawn by lot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from looktwice.pipelines.model import Model
from looktwice.pipelines.state import State

__all__ = ["Chance"]


@dataclass(frozen=True)
class Chance:
    """Answers one of the sample's letters, each equally likely; abstains where there are no choices.

    The lot depends on the run's seed, the sample, the draw and `slot`; give two of these different slots to have
    them differ.
    """

    slot: str = "chance"

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """The state with its answer."""
        letters = state.sample.letters
        if not letters:
            return state.abstain("there are no choices to draw from")
        drawn = letters[int(state.rng(self.slot).integers(len(letters)))]
        return state.replace(answer=drawn, reason="", confidence=1 / len(letters))
