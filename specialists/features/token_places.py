"""Where on its picture each image token of a multimodal network lies, by family, and attention spread over pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.runtime.networks import WeightsError

Floats = NDArray[np.float64]
FAMILIES = ("llava", "llava_next", "qwen2_vl", "qwen2_5_vl")


def token_places(network: Any, inputs: Any, sizes: Sequence[tuple[int, int]]) -> list[Floats]:
    """Of each picture of a prompt the places of its tokens (tokens, 4), in the order in which they stand.

    A place is the top, bottom, left and right edge as parts of the picture's height and width; what lies below 0 or
    above 1 is padding, and NaN is a token without a place. `sizes` are (height, width) of what the processor was given.
    Raises WeightsError for families that are not among `FAMILIES`, and where the numbers of tokens do not fit.
    """
    config, family = network.model.config, network.model.config.model_type
    if family not in FAMILIES:
        raise WeightsError(f"where image tokens lie is known of {', '.join(FAMILIES)}, not of {family!r}")
    if family.startswith("qwen"):
        merge = config.vision_config.spatial_merge_size
        shapes = [(rows // merge, columns // merge) for _, rows, columns in inputs["image_grid_thw"].tolist()]
        found = [_tiles(np.linspace(0, 1, rows + 1), np.linspace(0, 1, columns + 1)) for rows, columns in shapes]
    else:
        place = _tokens_of_square if family == "llava" else _tokens_of_tiles
        found = [place(network, height, width) for height, width in sizes]
    there = int((inputs["input_ids"] == config.image_token_id).sum())
    if there != sum(map(len, found)):
        raise WeightsError(f"the prompt has {there} image tokens, where {sum(map(len, found))} should be")
    return found


def spread(values: Floats, places: Floats, height: int, width: int) -> Floats:
    """Values of tokens as a map (height, width): each spread evenly over its part of the picture, and added up.

    Tokens that have no part of it are left out.
    """
    ys, xs = _shares(places[:, 0], places[:, 1], height), _shares(places[:, 2], places[:, 3], width)
    return np.asarray(ys * values @ xs.T, np.float64)


def _shares(starts: Floats, ends: Floats, pixels: int) -> Floats:
    """(pixels, tokens): which part of a token lies on each pixel, of the part of it that lies on the picture."""
    at = np.arange(pixels)[:, None]
    overlap = np.clip(np.fmin(ends * pixels, at + 1) - np.fmax(starts * pixels, at), 0, None)
    overlap[:, np.isnan(starts)] = 0
    return np.asarray(overlap / np.maximum(overlap.sum(0), 1e-12), np.float64)


def _tiles(ys: Floats, xs: Floats) -> Floats:
    """Places row by row between these edges."""
    rows, columns = len(ys) - 1, len(xs) - 1
    high, wide = np.repeat(np.column_stack([ys[:-1], ys[1:]]), columns, 0), np.tile([xs[:-1], xs[1:]], rows).T
    return np.hstack([high, wide])


def _tokens_of_square(network: Any, height: int, width: int) -> Floats:
    """LLaVA: the middle of the picture, a square. Raises WeightsError for processors that pad it to one."""
    images, side = network.processor.image_processor, _side(network)
    if getattr(images, "do_pad", False):
        raise WeightsError("where image tokens lie is not known of pictures that are padded to a square")
    size = images.size
    if size["shortest_edge"]:
        scaled = [int(size["shortest_edge"] * edge / min(height, width)) for edge in (height, width)]
    else:
        scaled = [size["height"], size["width"]]
    crop = [images.crop_size["height"], images.crop_size["width"]] if images.do_center_crop else scaled
    ys, xs = (
        (int((edge - kept) / 2) + np.arange(side + 1) * kept / side) / edge
        for edge, kept in zip(scaled, crop, strict=True)
    )
    first = np.full((int(network.model.config.vision_feature_select_strategy == "full"), 4), np.nan)  # the class token
    return np.vstack([first, _tiles(ys, xs)])


def _tokens_of_tiles(network: Any, height: int, width: int) -> Floats:
    """LLaVA-NeXT: the whole picture in few tokens, then finer ones without its padding, each row with a newline."""
    from transformers.image_processing_utils import select_best_resolution

    config, side = network.model.config, _side(network)
    if config.vision_feature_select_strategy != "default":
        raise WeightsError("where image tokens lie is known of LLaVA-NeXT with vision_feature_select_strategy: default")
    token = config.vision_config.image_size / side
    tall, wide = select_best_resolution((height, width), config.image_grid_pinpoints)
    rows, columns = round(tall / token), round(wide / token)
    above, left = 0, 0
    if width / height > columns / rows:
        seen = min(math.ceil(height * wide / width), tall), wide
        above = (rows - int(round(height * columns / width, 7))) // 2
    else:
        seen = tall, min(math.ceil(width * tall / height), wide)
        left = (columns - int(round(width * rows / height, 7))) // 2
    ys, xs = (
        (np.arange(cut, count - cut + 1) * token - (whole - kept) // 2) / kept
        for cut, count, whole, kept in ((above, rows, tall, seen[0]), (left, columns, wide, seen[1]))
    )
    fine = _tiles(ys, xs).reshape(len(ys) - 1, len(xs) - 1, 4)
    lines = np.concatenate([fine, np.full((len(fine), 1, 4), np.nan)], 1).reshape(-1, 4)
    edges = np.linspace(0, 1, side + 1)
    return np.vstack([_tiles(edges, edges), lines])


def _side(network: Any) -> int:
    """Tokens along a side of the encoder's square."""
    config = network.model.config.vision_config
    return int(config.image_size // config.patch_size)
