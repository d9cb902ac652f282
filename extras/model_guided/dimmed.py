"""Attention as a visual prompt: views are dimmed where a network attends little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image

from looktwice.extras.model_guided.attention import UsesLocalModel
from looktwice.pipelines.model import Model
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.evidence import project_maps, show_evidence
from looktwice.prompting.where.windows import get_known_values
from looktwice.specialists.protocols import DepthEstimator, ScalarMap
from looktwice.specialists.results import Floats

MAP_SIZE = 24, 24  # size to which maps of pixels are reduced: the patches of CLIP at 336 pixels


def compute_attention_mask(values: Floats) -> Floats:
    """Return the opacity, 0 to 1, at each position of a map (rows, columns): the standardised map,
    sharpened by a logistic curve and smoothed over 3 x 3 positions."""
    z_scores = (values - values.mean()) / (values.std(ddof=1) or 1.0)
    shares = 1 / (1 + np.exp(-5 * z_scores))
    return np.asarray(cv2.blur(shares, (3, 3), borderType=cv2.BORDER_REPLICATE), np.float64)


def dim_view(view: View, mask: Floats, ground: int) -> View:
    """Mix the view with a grey of the level `ground` where the mask, which may have any size, is
    low."""
    levels = Image.fromarray((mask * 255).astype(np.uint8))
    resized = levels.resize(view.size, Image.Resampling.LANCZOS)
    shown = np.asarray(resized, np.float64)[..., None] / 255
    return view.with_pixels((view.pixels * shown + (1 - shown) * ground).astype(np.uint8))


@dataclass(frozen=True, kw_only=True)
class Dimmed(UsesLocalModel, Ranged, WithoutModel):
    """Dims every view where a network in this process attends little as it begins to answer, as in
    API (arXiv 2409.17143) with LLaVA, or where any other map is low.

    The attention is that of one `layer` of `model` from the last token of the question (the authors
    use layer 20 of LLaVA-1.5-13B). `scalar` replaces the attention with any map of the pictures, as
    in `Windows`, such as the attention of a vision encoder, resized to 24 x 24 positions. `ground`
    is the grey level, 0 to 255, towards which views are dimmed.
    """

    model: str = ""
    scalar: ScalarMap | DepthEstimator | None = None
    layer: int = 20
    ground: int = 200

    ranges = ("ground >= 0", "ground <= 255")

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.model) == (self.scalar is not None):
            raise ValueError("views are dimmed by a single map: give either `model` or `scalar`")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the dimmed views. Raises WeightsError."""
        if scalar := self.scalar:
            return show_evidence(
                state,
                None,
                "keep",
                lambda number: get_known_values(scalar, state.sample, number),
                self._dim_by_map,
                "",
            )
        views = list[View]()
        for view in state.views:
            values = self.measure_attention(view, state.sample.question, self.layer)
            views.append(dim_view(view, compute_attention_mask(values), self.ground))
        return state.replace(views=tuple(views))

    def _dim_by_map(self, view: View, maps: Mapping[int, Floats]) -> list[View]:
        values = project_maps(view, maps)
        if np.isnan(values).all():
            return [view]
        places = cv2.resize(np.nan_to_num(values), MAP_SIZE, interpolation=cv2.INTER_AREA)
        return [dim_view(view, compute_attention_mask(np.asarray(places, np.float64)), self.ground)]
