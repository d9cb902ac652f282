"""Similarity of two images (style, content as a whole, or place by place) from any dense features,
and the salience of an edit between them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.model import CallOptions, Message, Model
from looktwice.pipelines.models.local_vlm import LocalVLM
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Device
from looktwice.pipelines.state import State
from looktwice.specialists.protocols import FeatureExtractor
from looktwice.specialists.results import FeatureGrid, Floats
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class GramSimilarity:
    """Similarity of style: which features occur together anywhere (Gatys et al., CVPR 2016).

    1 - |G0 - G1| / (|G0| + |G1|) of the two Gram matrices of `features`, each the mean of v v^T
    over the cells, in Frobenius norm; 1 means equal, 0 maximally different.
    """

    features: FeatureExtractor

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> float:
        """Return the similarity, 0..1, of two images, HxWx3 RGB uint8; larger is more similar.
        Raises the errors of the feature extractor."""
        grids = [_rows(look_once(self.features, pixels)) for pixels in (pixels0, pixels1)]
        first, second = (rows.T @ rows / len(rows) for rows in grids)
        most = np.linalg.norm(first) + np.linalg.norm(second)
        return float(1 - np.linalg.norm(first - second) / most) if most > 0 else 1.0


@dataclass(frozen=True)
class GlobalSimilarity:
    """Similarity of content as a whole: the cosine of the mean features.

    For `features` with one vector per image, such as DINOv2's with `part: whole`, it is the cosine
    of these vectors.
    """

    features: FeatureExtractor

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> float:
        """Return the similarity, -1..1, of two images, HxWx3 RGB uint8; larger is more similar.
        Raises the errors of the feature extractor."""
        first, second = (
            _rows(look_once(self.features, pixels)).mean(0, keepdims=True)
            for pixels in (pixels0, pixels1)
        )
        return float(cosines(first, second)[0, 0])


@dataclass(frozen=True)
class DenseSimilarity:
    """Similarity of local `features`, regardless of their position.

    For each cell of one image, the largest cosine to a cell of the other, averaged over the cells
    and both directions.
    """

    features: FeatureExtractor

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> float:
        """Return the similarity, -1..1, of two images, HxWx3 RGB uint8; larger is more similar.
        Raises the errors of the feature extractor."""
        alike = cosines(*(_rows(look_once(self.features, pixels)) for pixels in (pixels0, pixels1)))
        return float((alike.max(0).mean() + alike.max(1).mean()) / 2)


COMPARISON_PROMPT = """Here is what two images show.
Image 1: {}
Image 2: {}
From image 1 to image 2, what changed is in short:"""


@dataclass(frozen=True)
class EditSalience:
    """Measures how easily an edit can be inferred from a model's descriptions of two images.

    VLM2-Bench (section 2.1) excludes edits that are too easy to see by this score. The question is
    the edit in words; the views are the image before and after it. The model answers `describe`
    about each; `salience` is the mean log-probability that `scorer` (a network for LocalVLM, of
    this `revision`, on this `device`) assigns to the tokens of the edit after both descriptions,
    and `kept` is "yes" if it is below `threshold`, the paper's -2. The paper's scorer, Llama 3 8B,
    continues plain text: here the frame, in our words, is a user turn, and the edit the reply.
    Equation 1 is followed; the pseudo-code of figure 7 omits the first token from the sum but
    includes it in the count.
    """

    scorer: str
    revision: str | None = None
    device: Device = field(default="auto", metadata=NOT_IDENTITY)
    describe: str = "Describe this image in detail."
    threshold: float = -2.0

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with both measurements. Raises ModelError, and ValueError unless there
        are two views."""
        edit = state.sample.bare_question
        if len(state.views) != 2:
            raise ValueError(
                f"sample {state.sample.id} has {len(state.views)} views; show the image before the"
                " edit and the one after it"
            )
        asked = [[Message("user", (view, self.describe))] for view in state.views]
        frame = COMPARISON_PROMPT.format(*(model(messages).text for messages in asked))
        options = CallOptions(choices=(edit,))
        scorer = LocalVLM(self.scorer, self.revision, device=self.device)
        reply = scorer([Message("user", (frame,))], options=options)
        tokens = scorer.network().tokenizer(edit, add_special_tokens=False)["input_ids"]
        salience = reply.logprobs[0][edit] / len(tokens)
        kept = "yes" if salience < self.threshold else "no"
        return state.measured("salience", salience).measured("kept", kept)


def cosines(first: Floats, second: Floats) -> Floats:
    """Compute the cosines (n, m) between vectors (n, d) and (m, d); 0 if a vector is zero."""
    return _normalize_rows(first) @ _normalize_rows(second).T


def _normalize_rows(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))


def _rows(grid: FeatureGrid) -> Floats:
    return grid.values.reshape(-1, grid.values.shape[-1])
