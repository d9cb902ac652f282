"""How sure a reply is, by the likelihoods of the choices, and stages that run where it is not."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from looktwice.pipelines.config.spec import asks_model
from looktwice.pipelines.model import Model, Reply
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import Stage, State

ALTERNATIVES = 20  # per token: the most that OpenAI gives


def with_confidence(state: State, reply: Reply) -> State:
    """The state with the likeliest choice's share of the likelihood of all choices as its
    confidence, and measured as `choice_mass` what all choices have together.

    It is that of the first token of the reply that is a choice's letter, or of the choices in full
    where the reply was to be one of them. A note says where no likelihood came back.
    """
    choices = [*state.sample.letters, *map(_bare, state.sample.choices)]
    for candidates in reply.logprobs:
        shares: dict[str, float] = {}
        for text, likelihood in candidates.items():
            if (name := _bare(text)) in choices:
                shares[name] = shares.get(name, 0.0) + math.exp(likelihood)
        mass = sum(shares.values())
        if _bare(next(iter(candidates), "")) in choices and mass > 0:
            confidence = min(1.0, max(shares.values()) / mass)
            return state.replace(confidence=confidence).measured("choice_mass", min(1.0, mass))
    return state.with_notes("no likelihood of a choice came back, so it has no confidence")


def _bare(text: Any) -> str:
    """A token or choice without brackets, blanks and marks of tokenizers."""
    return re.sub(r"[\W_]", "", str(text))


@dataclass(frozen=True)
class When(Ranged):
    """Runs `stage` only where the confidence so far is less than `below`, or unknown: a zoom, a
    second look, a whole pipeline that asks again.

    Confidence comes of `Ask` with `confidence: choices`, of votes, or of a specialist. Measured is
    `looked_again`, 1 where the stage was run.
    """

    stage: Stage
    below: float = 0.8

    ranges = ("below >= 0", "below <= 1")

    @property
    def asks(self) -> bool:
        """Whether the stage asks the model."""
        return asks_model(self.stage)

    def __call__(self, state: State, model: Model) -> State:
        """The state after the stage, or as it was."""
        again = state.confidence is None or state.confidence < self.below
        return (self.stage(state, model) if again else state).measured("looked_again", int(again))
