"""Answers by the likelihoods of the choices with the picture, contrasted with those with a changed
one: CRG, VCD, and what their critics compare them with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looktwice.pipelines.model import Message, Model
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.where.attention import LocalEyes
from looktwice.specialists.results import Floats


def contrast(image: Floats, changed: Floats, alpha: float, beta: float) -> Floats:
    """(1 + alpha) times the logits with the picture less alpha times those with the changed one;
    minus infinity below log(beta) and the largest with the picture."""
    scores = (1 + alpha) * image - alpha * changed
    with np.errstate(divide="ignore"):
        return np.where(image < np.log(beta) + image.max(), -np.inf, scores)


@dataclass(frozen=True, kw_only=True)
class ContrastAnswer(Ranged, LocalEyes):
    """Answers with the letter that the picture makes likelier than a changed one does, by a network
    in this process.

    `change` is any stage that changes the views: for CRG (arXiv 2403.02325) `prompting.views.Show`
    with `prompting.markers.Cover`, which blackens what a source finds; for VCD (2311.16922)
    `prompting.controls.Noise`, with `beta` 0.1. The likelihoods are those of the reply's first
    token. `alpha` 0 with a `beta` is the cut-off alone, which critics of VCD (2504.10020) found to
    bring as much; so did words that push towards yes. Measured is `shifted`, 1 where the answer is
    another one than without the contrast. Raises ValueError for a sample without choices.
    """

    change: Stage
    alpha: float = 1.0
    beta: float = 0.0

    ranges = ("alpha, beta >= 0", "beta <= 1")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the answer, and its share of the choices as confidence."""
        letters = state.sample.letters
        if not letters:
            raise ValueError(f"sample {state.sample.id} has no choices to compare")
        looks = []
        for shown in (state, self.change(state, model)):
            looks.append(self.eyes.look([Message("user", (*shown.views, state.prompt))]))
        tokens, likely = looks[0].letters(letters), looks[0].likely
        scores = contrast(likely, looks[1].likely, self.alpha, self.beta)[tokens]
        if not np.isfinite(scores).any():
            return state.abstain("no choice is likely enough")
        shares = np.exp(scores - scores.max())
        best, plain = int(scores.argmax()), int(likely[tokens].argmax())
        state = state.replace(answer=letters[best], confidence=float(shares[best] / shares.sum()))
        return state.measured("shifted", int(best != plain))
