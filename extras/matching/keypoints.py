"""EfficientLoFTR and other keypoint matchers of Hugging Face transformers, by hub id or folder."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Any, ClassVar

import numpy as np

from looktwice.extras.matching.pair_network import MatchingNetwork, Pair
from looktwice.extras.networks.checkpoints import (
    count_distinct,
    open_converted,
    open_tensors,
    rename_tensors,
)
from looktwice.extras.networks.network import HubModel, HubNetwork
from looktwice.extras.networks.opening import Place, import_torch, import_transformers
from looktwice.extras.networks.tensors import to_array
from looktwice.pipelines.picture import Pixels
from looktwice.specialists.pixels import InputSize
from looktwice.specialists.results import Matches, argsort_descending


def match_cells(scores: Any, config: Any) -> tuple[Any, Any]:
    """Find the pairs of cells that are each other's best match, given scores (n, h0, w0, h1, w1)
    (Wang et al., CVPR 2024, section 3.2).

    Returns the indices of the matched cells in images 0 and 1 (-1 for no match), and their scores;
    both have the shape (n, 2, h0 * w0).
    """
    torch = import_torch()
    from transformers.models.efficientloftr.modeling_efficientloftr import mask_border

    border = config.coarse_matching_border_removal
    inside = mask_border(torch.ones_like(scores, dtype=torch.bool), border, False)
    scores, inside = (tensor.flatten(3).flatten(1, 2) for tensor in (scores, inside))
    mutual = (scores == scores.amax(2, keepdim=True)) & (scores == scores.amax(1, keepdim=True))
    kept = torch.where(mutual & inside & (scores > config.coarse_matching_threshold), scores, 0)
    best, partner = kept.max(2)
    cells = torch.arange(kept.shape[1], device=kept.device).expand_as(partner)
    joined = torch.where((best > 0)[:, None], torch.stack([cells, partner], 1), -1)
    return joined, torch.stack([best, best], 1)


def refine_matches(fine0: Any, fine1: Any, cells: Any, scale: float, config: Any) -> Any:
    """Return the positions of matches, (n, 2, m, 2): first located to a pixel, then in image 1 to a
    fraction of a pixel (Wang et al., CVPR 2024, section 3.3).

    `fine0` (n, m, s * s, d) holds the features of the windows in image 0, `fine1` (n, m, (s + 2) *
    (s + 2), d) those of the windows in image 1 with a border of one pixel; the last channels serve
    the second step. `cells` (n, 2, m, 2) are the positions of the windows, `scale` the image pixels
    per feature.
    """
    torch, (count, slots, inner, width) = import_torch(), fine0.shape
    side, cut = isqrt(inner), width - config.fine_matching_slice_dim
    grid = side + 2, side + 2
    fine0, fine1 = fine0.flatten(0, 1), fine1.flatten(0, 1)
    similarity = fine0[..., :cut] @ fine1[..., :cut].mT / width
    likely = (similarity.softmax(1) * similarity.softmax(2)).unflatten(2, grid)[..., 1:-1, 1:-1]
    best = likely.flatten(1).argmax(1)
    at0, at1 = best // inner, best % inner
    rows = torch.arange(len(best), device=best.device)
    step = torch.arange(-1, 2, device=best.device)
    asked = fine0[rows, at0, cut:, None] / (width - cut) ** 0.5
    near = (fine1[..., cut:] @ asked).unflatten(1, grid)[..., 0]
    down, across = (at1 // side)[:, None, None] + step[:, None], (at1 % side)[:, None, None] + step
    heat = near[rows[:, None, None], down, across] / config.fine_matching_regress_temperature
    heat = heat.flatten(1).softmax(1).unflatten(1, (3, 3))
    part = torch.stack([(heat * step).sum((1, 2)), (heat * step[:, None]).sum((1, 2))], 1)
    at = torch.stack([at0, at1])
    places = torch.stack([at % side, at // side], 2) - side // 2 + 0.5
    shifts = torch.stack([places[0].to(part), places[1] + part], 1)
    return cells + shifts.unflatten(0, (count, slots)).transpose(1, 2) * scale


@dataclass(frozen=True)
class KeypointMatcher(MatchingNetwork, HubNetwork[Pair, Matches]):
    """Matches by EfficientLoFTR (Wang et al., CVPR 2024), SuperPoint with LightGlue or SuperGlue,
    or similar networks.

    `model` is any id that Hugging Face transformers opens for keypoint matching. A match is kept if
    its score, which is its confidence, is above `threshold`, in addition to the network's own
    threshold. Images are resized to the size that is set in the network's own processor, usually
    640 x 480, or 480 x 640 if both images are in portrait format. They keep their aspect ratio: the
    rest is black, and matches there are dropped. SuperPoint's weights are not for commercial use.
    """

    model: str = "zju-community/efficientloftr"
    threshold: float = 0.0

    model_class = "AutoModelForKeypointMatching"
    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype == "float16":
            raise ValueError(
                "these matchers overflow in float16 and return no match; set dtype: bfloat16"
                " or float32"
            )

    def open_network(self, place: Place) -> HubModel:
        """Open the network and its processor. Raises WeightsError."""
        opened = super().open_network(place)
        network = opened.model
        # two steps of EfficientLoFTR are replaced by `match_cells` and `refine_matches`
        if hasattr(network, "_get_matches_from_scores"):
            network._get_matches_from_scores = partial(match_cells, config=network.config)
            network._fine_matching = partial(refine_matches, config=network.config)
        return opened

    def open_file(self, path: str) -> HubModel:
        """Open an original checkpoint. Raises WeightsError."""
        return open_efficient_loftr(path)

    def forward(self, network: Any, place: Place, items: Sequence[Pair]) -> list[Matches]:
        """Return the matches of each pair, highest confidence first."""
        rows, columns = network.processor.size["height"], network.processor.size["width"]
        if self.get_batch_key(items[0]):
            rows, columns = max(rows, columns), min(rows, columns)
        canvases = [[pad_image(pixels, columns / rows) for pixels in item] for item in items]
        size = {"height": rows, "width": columns}
        output = network.model(**network.make_inputs(place, images=canvases, size=size))
        # EfficientLoFTR returns corners of pixels, as its authors' scaling and LoFTR do; the
        # others return centres
        corner = 0.5 if getattr(output, "mask", None) is None else 0.0
        matched = []
        for number, item in enumerate(items):
            joined, scores = read_matches(output, number)
            xy = []
            inside = (scores > self.threshold) & (joined >= 0).all(0)
            for side, (pixels, canvas) in enumerate(zip(item, canvases[number], strict=True)):
                places = to_array(output.keypoints[number, side])[joined[side]]
                input_size = InputSize(canvas.shape[1], canvas.shape[0], columns, rows)
                xy.append(input_size.to_image(places * (columns, rows) - corner))
                inside &= (xy[side] <= np.array(pixels.shape[1::-1]) - 0.5).all(1)
            kept = np.flatnonzero(inside)
            kept = kept[argsort_descending(scores[kept])]
            matched.append(Matches(xy[0][kept], xy[1][kept], scores[kept].clip(0, 1)))
        return matched

    def get_batch_key(self, item: Pair) -> Hashable:
        """Return whether both images are in portrait format, because all pairs are resized to one
        landscape or portrait size."""
        return all(pixels.shape[0] > pixels.shape[1] for pixels in item)


def pad_image(pixels: Pixels, ratio: float) -> Pixels:
    """Add black to the right of an image or below it, so that the width is `ratio` times the
    height."""
    height, width = pixels.shape[:2]
    wide, high = max(width, round(height * ratio)), max(height, round(width / ratio))
    return np.pad(pixels, ((0, high - height), (0, wide - width), (0, 0)))


def read_matches(output: Any, number: int) -> tuple[Any, Any]:
    """Return the row numbers (2, n) of the matched keypoints in images 0 and 1 of one pair, -1 for
    no match, and the scores of the matches (n,)."""
    matches, scores = (
        output.matches[number].cpu().numpy(),
        to_array(output.matching_scores[number]),
    )
    slots = np.arange(matches.shape[-1])
    # EfficientLoFTR: the keypoints of a slot already form a match
    if getattr(output, "mask", None) is None:
        return np.where(matches >= 0, slots, -1), scores[0]
    partner, present = matches[0], output.mask[number].cpu().numpy() > 0
    partner = np.where(present[0] & (partner >= 0) & (partner < present.shape[1]), partner, -1)
    partner = np.where(present[1][partner], partner, -1)
    return np.stack([np.where(partner >= 0, slots, -1), partner]), scores[0]


# layers alternate between self-attention and cross-attention
ATTENTION_PATTERN = re.compile(r"^loftr_coarse\.layers\.(\d+)\.(.*)")


def open_efficient_loftr(path: str) -> HubModel:
    """Open the full EfficientLoFTR from its authors' `eloftr_outdoor.ckpt`. Raises WeightsError."""
    transformers, tensors = import_transformers(), open_tensors(path, "EfficientLoFTR")
    blocks, widths = list[int](), list[int]()
    for n in range(4):
        blocks.append(count_distinct(tensors, rf"backbone\.layer{n}\.(\d+)\.") or 1)
        first = tensors[f"backbone.layer{n}.{'0.' * (n > 0)}rbr_dense.conv.weight"]
        widths.append(first.shape[0])
    reach = tensors["loftr_coarse.layers.0.aggregate.weight"].shape[-1]
    config = transformers.EfficientLoFTRConfig(
        stage_num_blocks=blocks,
        out_features=widths,
        hidden_size=widths[-1],
        num_attention_layers=count_distinct(tensors, r"loftr_coarse\.layers\.(\d+)\.") // 2,
        q_aggregation_kernel_size=reach,
        kv_aggregation_kernel_size=reach,
        q_aggregation_stride=reach,
        kv_aggregation_stride=reach,
    )
    named = {}
    for name, tensor in tensors.items():
        if match := ATTENTION_PATTERN.match(name):
            number, kind = int(match[1]) // 2, "cross" if int(match[1]) % 2 else "self"
            layer = f"efficientloftr.local_feature_transformer.layers.{number}"
            name = f"{layer}.{kind}_attention.{match[2]}"
        named[name] = tensor
    network = open_converted(
        "EfficientLoFTRForKeypointMatching", config, rename_tensors(named, "efficient_loftr"), path
    )
    return HubModel(network, transformers.EfficientLoFTRImageProcessorPil())
