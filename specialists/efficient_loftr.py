"""The two steps of EfficientLoFTR that come after its network, as its authors have them.

transformers 5.23 has them otherwise: it lists the partners of both images' cells in two orders that do not belong
together, mixes up the pairs of a batch, and moves every match by the same (-3.5, -3.5) pixels instead of to its place
in the cell. The weights are not concerned.
"""

from __future__ import annotations

from functools import partial
from math import isqrt
from typing import Any

from looktwice.pipelines.weights import import_torch

__all__ = ["mend", "paired_cells", "refined"]


def mend(network: Any) -> None:
    """Put the steps below in the place of those of an opened EfficientLoFTR of transformers."""
    network._get_matches_from_scores = partial(paired_cells, config=network.config)
    network._fine_matching = partial(refined, config=network.config)


def paired_cells(scores: Any, config: Any) -> tuple[Any, Any]:
    """Which cells are each other's best (Wang et al., CVPR 2024, section 3.2), from scores (n, h0, w0, h1, w1).

    Gives the numbers of the joined cells of image 0 and 1, -1 for none, and their scores: both (n, 2, h0 * w0).
    """
    torch = import_torch()
    from transformers.models.efficientloftr.modeling_efficientloftr import mask_border

    inside = mask_border(torch.ones_like(scores, dtype=torch.bool), config.coarse_matching_border_removal, False)
    scores, inside = (each.flatten(3).flatten(1, 2) for each in (scores, inside))
    mutual = (scores == scores.amax(2, keepdim=True)) & (scores == scores.amax(1, keepdim=True))
    kept = torch.where(mutual & inside & (scores > config.coarse_matching_threshold), scores, 0)
    best, partner = kept.max(2)
    cells = torch.arange(kept.shape[1], device=kept.device).expand_as(partner)
    joined = torch.where((best > 0)[:, None], torch.stack([cells, partner], 1), -1)
    return joined, torch.stack([best, best], 1)


def refined(fine0: Any, fine1: Any, cells: Any, scale: float, config: Any) -> Any:
    """Where matches lie, (n, 2, m, 2): first to a pixel, then in image 1 to a part of one (the same, section 3.3).

    `fine0` (n, m, s * s, d) are the features of the windows in image 0, `fine1` (n, m, (s + 2) * (s + 2), d) those in
    image 1 with a rim of one pixel; the last channels are for the second step. `cells` (n, 2, m, 2) are the windows'
    places, `scale` the pixels of a step.
    """
    torch = import_torch()
    count, slots, inner, width = fine0.shape
    side, cut = isqrt(inner), width - config.fine_matching_slice_dim
    fine0, fine1 = fine0.flatten(0, 1), fine1.flatten(0, 1)
    alike = fine0[..., :cut] @ fine1[..., :cut].mT / width
    likely = (alike.softmax(1) * alike.softmax(2)).unflatten(2, (side + 2, side + 2))[..., 1:-1, 1:-1]
    best = likely.flatten(1).argmax(1)
    at0, at1 = best // inner, best % inner
    rows, step = torch.arange(len(best), device=best.device), torch.arange(-1, 2, device=best.device)
    asked = fine0[rows, at0, cut:, None] / (width - cut) ** 0.5
    near = (fine1[..., cut:] @ asked).unflatten(1, (side + 2, side + 2))[..., 0]
    down, across = (at1 // side)[:, None, None] + step[:, None], (at1 % side)[:, None, None] + step
    heat = near[rows[:, None, None], down, across] / config.fine_matching_regress_temperature
    heat = heat.flatten(1).softmax(1).unflatten(1, (3, 3))
    part = torch.stack([(heat * step).sum((1, 2)), (heat * step[:, None]).sum((1, 2))], 1)
    place0, place1 = (torch.stack([at % side, at // side], 1) - side // 2 + 0.5 for at in (at0, at1))
    moved = torch.stack([place0.to(part), place1 + part], 1)
    return cells + moved.unflatten(0, (count, slots)).transpose(1, 2) * scale
