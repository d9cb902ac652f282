"""Which of several images is real, told from how likely a generator made each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from looktwice.pipelines.model import Model
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.specialists.choices import answered, clearest, images_by_letter
from looktwice.specialists.protocols import RealOrFake

__all__ = ["MostReal"]


@dataclass(frozen=True)
class MostReal:
    """Answers the choice whose image is the least likely to come from a generator, as in BLINK's forensic detection.

    Confidence is the difference of the two lowest probabilities. Abstains where images and choices do not pair up,
    where `fake` cannot look at one of them, and at a tie.
    """

    fake: RealOrFake

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """The state with its answer, or the reason why there is none."""
        return answered(state, self.most_real)

    def most_real(self, sample: Sample) -> tuple[str, float]:
        """The letter and the confidence. Raises NoEvidence."""
        images = images_by_letter(sample)
        return clearest({letter: -self.fake(image.pixels) for letter, image in images.items()}, "the scores of")
