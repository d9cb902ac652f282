"""EfficientLoFTR, and any other network of transformers that matches keypoints, by hub id or folder."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.weights import Place
from looktwice.specialists.efficient_loftr import mend
from looktwice.specialists.hub import HubNetwork, Opened
from looktwice.specialists.results import Matches
from looktwice.specialists.working_size import WorkingSize, one_color

__all__ = ["KeypointMatcher"]

Pair = tuple[Pixels, Pixels]


@dataclass(frozen=True)
class KeypointMatcher(HubNetwork[Pair, Matches]):
    """Matches of EfficientLoFTR (Wang et al., CVPR 2024), SuperPoint with LightGlue or SuperGlue, or their like.

    Any id that transformers opens for keypoint matching will do. A match is kept where its score, which is its
    confidence, is above `threshold`, beyond the network's own one. Images are looked at as the processor that was
    saved with the network brings them to one size, usually 640 x 480. SuperPoint's weights are not for commercial use.
    """

    model: str = "zju-community/efficientloftr"
    threshold: float = 0.0

    found: ClassVar[type[Any]] = Matches
    kind: ClassVar[str] = "AutoModelForKeypointMatching"
    half_is_safe: ClassVar[bool] = False

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        """Matches between two images, HxWx3 RGB uint8; none where one is of one colour. Raises WeightsError."""
        if one_color(pixels0) or one_color(pixels1):
            return Matches.none()
        return self.ask((pixels0, pixels1))

    def open_network(self, place: Place) -> Opened:
        """Network and processor. Raises WeightsError."""
        opened = super().open_network(place)
        if hasattr(opened.model, "_get_matches_from_scores"):  # EfficientLoFTR
            mend(opened.model)
        return opened

    def forward(self, network: Any, place: Place, items: Sequence[Pair]) -> list[Matches]:
        """The matches of each pair, the surest first."""
        inputs = network.inputs(place, images=[list(item) for item in items])
        told = network.model(**inputs)
        rows, columns = inputs["pixel_values"].shape[-2:]
        found = []
        for number, item in enumerate(items):
            joined, scores = _joined(told, number)
            kept = np.flatnonzero((scores > self.threshold) & (joined >= 0).all(0))
            kept = kept[np.argsort(-scores[kept], kind="stable")]
            xy = [
                WorkingSize(item[side].shape[1], item[side].shape[0], columns, rows).to_image(
                    told.keypoints[number, side].float().cpu().numpy()[joined[side, kept]] * (columns, rows)
                )
                for side in (0, 1)
            ]
            found.append(Matches(xy[0], xy[1], scores[kept].clip(0, 1)))
        return found

    def like(self, item: Pair) -> Hashable:
        """All pairs alike: the processor brings them to one size."""
        return None


def _joined(told: Any, number: int) -> tuple[Any, Any]:
    """Row numbers (2, n) of the joined keypoints of image 0 and 1 in one pair, -1 for none, and their scores (n,)."""
    matches, scores = told.matches[number], told.matching_scores[number].float().cpu().numpy()[0]
    if getattr(told, "mask", None) is None:  # EfficientLoFTR: the keypoints of a slot are already those of a match
        slots = np.arange(matches.shape[-1])
        return np.where(matches.cpu().numpy() >= 0, slots, -1), scores
    partner = matches[0].cpu().numpy()
    known = told.mask[number].cpu().numpy() > 0
    partner = np.where(known[0] & (partner >= 0) & (partner < known.shape[1]), partner, -1)
    partner = np.where(known[1][partner], partner, -1)
    return np.stack([np.where(partner >= 0, np.arange(len(partner)), -1), partner]), scores
