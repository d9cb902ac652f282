"""The face of romatch 0.1: its names, signatures and frame, over a warp that leaves every place
where it is."""

from __future__ import annotations

from typing import Any

import torch
from PIL import Image

told: list[dict[str, Any]] = []
"""What the functions that build a matcher were given."""


class RegressionMatcher:
    certain = 0.5  # of the upper half of the image; the lower half has none

    def match(
        self,
        im_A_input: Any,
        im_B_input: Any,
        *args: Any,
        im_A_high_res: Any = None,
        im_B_high_res: Any = None,
        batched: bool = True,
        device: Any = None,
    ) -> tuple[Any, Any]:
        """A warp (1, 6, 16, 4) of both directions, side by side, in -1..1 from edge to edge, and
        its certainty."""
        assert isinstance(im_A_input, Image.Image) and im_A_input.mode == im_B_input.mode == "RGB"
        down, across = torch.arange(6) / 3 - 5 / 6, torch.arange(8) / 4 - 7 / 8
        y, x = torch.meshgrid(down, across, indexing="ij")
        warp = torch.stack([x, y, x, y], -1)[None]
        certainty = torch.full((1, 6, 16), 0.01)
        certainty[:, :3] = self.certain
        certainty[:, 3:] = 0
        return torch.cat([warp, warp], 2), certainty

    def sample(self, matches: Any, certainty: Any, num: int = 10000) -> tuple[Any, Any]:
        matches, certainty = matches.reshape(-1, 4), certainty.reshape(-1).clone()
        certainty[certainty > 0.05] = 1
        drawn = torch.multinomial(certainty, min(4 * num, len(certainty)), replacement=False)
        spread = torch.ones(len(drawn))
        drawn = drawn[torch.multinomial(spread, min(num, len(drawn)), replacement=False)]
        return matches[drawn], certainty[drawn]

    def to_pixel_coordinates(
        self, coords: Any, H_A: int, W_A: int, H_B: Any = None, W_B: Any = None
    ) -> Any:
        sides = ((coords[..., :2], W_A, H_A), (coords[..., 2:], W_B, H_B))
        return tuple(
            torch.stack([w / 2 * (xy[..., 0] + 1), h / 2 * (xy[..., 1] + 1)], -1)
            for xy, w, h in sides
        )


def roma_outdoor(
    device: Any,
    weights: Any = None,
    dinov2_weights: Any = None,
    coarse_res: Any = 560,
    upsample_res: Any = 864,
    amp_dtype: Any = torch.float16,
    symmetric: bool = True,
    use_custom_corr: bool = True,
    upsample_preds: bool = True,
) -> RegressionMatcher:
    if weights is None or dinov2_weights is None:
        raise OSError("no network")
    if "decoder.scale" not in weights:
        raise RuntimeError('Error(s) in loading state_dict:\n\tMissing key(s): "decoder.scale".')
    told.append(
        {"device": device, "dtype": amp_dtype, "fused": use_custom_corr, "trained on": "outdoor"}
    )
    return RegressionMatcher()


def roma_indoor(device: Any, **settings: Any) -> RegressionMatcher:
    matcher = roma_outdoor(device, **settings)
    told[-1]["trained on"] = "indoor"
    return matcher
