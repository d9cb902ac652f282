"""Contrastive decoding: answers by the difference between the likelihoods of the choices with the
image and with a changed image, as in CRG and VCD, and the baselines that the critics of these
methods use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looktwice.extras.model_guided.attention import UsesLocalModel
from looktwice.pipelines.model import Message, Model
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import Stage, State
from looktwice.specialists.results import Floats


def contrast_logits(image: Floats, changed: Floats, alpha: float, beta: float) -> Floats:
    """Return (1 + alpha) times the logits with the image minus alpha times those with the changed
    image. Logits with the image that are below their maximum plus log(beta) become minus
    infinity."""
    scores = (1 + alpha) * image - alpha * changed
    with np.errstate(divide="ignore"):
        return np.where(image < np.log(beta) + image.max(), -np.inf, scores)


@dataclass(frozen=True, kw_only=True)
class ContrastAnswer(Ranged, UsesLocalModel):
    """Answers with the choice whose likelihood the image raises most compared with a changed image,
    measured with a network in this process.

    `change` is any stage that changes the views: for CRG (arXiv 2403.02325) `prompting.views.Show`
    with `prompting.markers.Cover`, which blackens the regions that a source returns; for VCD
    (2311.16922) `prompting.controls.Noise`, with `beta` 0.1. The likelihoods are those of the
    reply's first token. `alpha` 0 with a `beta` applies the cut-off alone. Critics of VCD
    (2504.10020) found that the cut-off alone gains as much, and so do prompts that favour yes.
    Measures `shifted`, which is 1 if the answer differs from the answer without the contrast.
    Raises ValueError for a sample without choices.
    """

    change: Stage
    alpha: float = 1.0
    beta: float = 0.0

    ranges = ("alpha, beta >= 0", "beta <= 1")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the answer, and its share of the choices' likelihood as
        confidence."""
        letters = state.sample.letters
        if not letters:
            raise ValueError(f"sample {state.sample.id} has no choices to compare")
        looks = []
        for shown in (state, self.change(state, model)):
            looks.append(
                self.local_model.compute_reply_start(
                    [Message("user", (*shown.views, state.prompt))]
                )
            )
        tokens, likely = looks[0].find_first_tokens(letters), looks[0].log_probabilities
        scores = contrast_logits(likely, looks[1].log_probabilities, self.alpha, self.beta)[tokens]
        if not np.isfinite(scores).any():
            return state.abstain("no choice is likely enough")
        shares = np.exp(scores - scores.max())
        best, plain = int(scores.argmax()), int(likely[tokens].argmax())
        state = state.replace(answer=letters[best], confidence=float(shares[best] / shares.sum()))
        return state.measured("shifted", int(best != plain))
