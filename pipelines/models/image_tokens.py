"""Estimates how many tokens a picture costs: by the rule that the provider publishes (`RULES`), by
the image processor of an open model (`processors`), or roughly. Sizes are (width, height) in
pixels."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from math import ceil, floor, sqrt
from typing import NamedTuple

from looktwice.pipelines.models.processors.layouts import (
    Size,
    find_processor,
    find_rule,
    read_rules,
)
from looktwice.pipelines.models.wire import ImageDetail

CELL_SIDE = 28  # pixels per side of one token: Claude's, Qwen's, and our guess for others


class ImageRule(NamedTuple):
    """A function from picture size to tokens, and whether the provider publishes this rule."""

    count_tokens: Callable[[Size], int]
    published: bool = True


def count_openai_tile_tokens(size: Size, base: int, tile: int) -> int:
    """Count tokens by OpenAI's rule of 512-pixel tiles: shrink to fit 2,048 pixels, then the short
    side to 768; nothing is enlarged."""
    scale = min(1.0, 2048 / max(size))
    scale *= min(1.0, 768 / (min(size) * scale))
    across, down = (ceil(round(side * scale) / 512) for side in size)
    return base + tile * across * down


def count_openai_patch_tokens(
    size: Size, budget: int = 1536, longest: int | None = None, factor: float = 1.0
) -> int:
    """Count tokens by OpenAI's rule of 32-pixel patches, up to the budget; before that, the picture
    is shrunk to sides of at most `longest`."""
    scale = min(1.0, longest / max(size)) if longest else 1.0
    across, down = (side * scale / 32 for side in size)
    if ceil(across) * ceil(down) > budget:
        shrink = sqrt(budget / (across * down))
        across, down = across * shrink, down * shrink
        whole = min(floor(across) / across, floor(down) / down)
        across, down = across * whole, down * whole
    return ceil(round(factor * ceil(round(across, 6)) * ceil(round(down, 6)), 6))


def count_claude_tokens(size: Size, longest: int = 1568, budget: int = 1568) -> int:
    """Count tokens by Anthropic's rule: the 28-pixel cells of the picture as Claude sees it."""
    return count_cells(compute_claude_size(size, longest, budget))


def compute_claude_size(size: Size, longest: int = 1568, budget: int = 1568) -> Size:
    """Return the size at which Claude sees a picture, the largest within both limits; Claude's
    coordinates are pixels of that size."""
    long, short = max(size), min(size)

    def is_too_large(side: int) -> bool:
        resized = side, max(1, round(short * side / long))
        return ceil(side / CELL_SIDE) * CELL_SIDE > longest or count_cells(resized) > budget

    side = max(1, bisect_left(range(1, long + 1), True, key=is_too_large))
    short_side = max(1, round(short * side / long))
    return (side, short_side) if size[0] >= size[1] else (short_side, side)


def count_gemini_tokens(size: Size) -> int:
    """Count tokens by Google's rule for Gemini 2: 258 for a small picture, else 258 per square tile
    whose side is two thirds of the short side."""
    if max(size) <= 384:
        return 258
    unit = floor(min(size) / 1.5)
    return 258 * ceil(size[0] / unit) * ceil(size[1] / unit) if unit else 258


def count_cells(size: Size) -> int:
    """Count one token per 28 x 28 pixels, including partly filled cells."""
    return ceil(size[0] / CELL_SIDE) * ceil(size[1] / CELL_SIDE)


count_high_detail_tokens = partial(count_openai_patch_tokens, budget=2500, longest=2048)
LARGE_INPUT_CLAUDE_REGEX = r"claude-opus-4[.-][7-9]|claude-[a-z]+-[5-9]"
count_original_detail_tokens = partial(count_openai_patch_tokens, budget=10_000, longest=6000)
PUBLISHED_RULES = rf"""
gpt-4o-mini                      tiles base=2833 tile=5667
gpt-(4\.1|5)-mini                patches factor=1.62
gpt-(4\.1|5)-nano                patches factor=2.46
o4-mini                          patches factor=1.72
gpt-5\.2|gpt-5[\d.]*-codex       patches
gpt-5\.4-mini                    high factor=1.62
gpt-5\.4                         high
gpt-5\.[5-9]                     original
(gpt-|chatgpt-)(4o|4\.1|4\.5)    tiles base=85 tile=170
o[13](?!-mini)                   tiles base=75 tile=150
gpt-5(?![\d.])                   tiles base=70 tile=140
computer-use                     tiles base=65 tile=129
{LARGE_INPUT_CLAUDE_REGEX} claude longest=2576 budget=4784
claude                           claude
gemini-3                         gemini_3
gemini-2                         gemini_2
"""
TOKEN_COUNTERS: dict[str, Callable[..., int]] = {
    "tiles": count_openai_tile_tokens,
    "patches": count_openai_patch_tokens,
    "high": count_high_detail_tokens,
    "original": count_original_detail_tokens,
    "claude": count_claude_tokens,
    "gemini_3": lambda size: 1120,
    "gemini_2": count_gemini_tokens,
}
RULES = read_rules(PUBLISHED_RULES, TOKEN_COUNTERS)


def find_image_rule(model: str, detail: ImageDetail | None = None) -> ImageRule:
    """Return the rule of a model by its name, with or without its provider ("openai/gpt-4o")."""
    if layout := find_processor(model):
        return ImageRule(lambda size: layout(size).tokens)
    rule = find_rule(model, RULES)
    if rule is None:
        return ImageRule(count_cells, published=False)
    if detail == "low" and isinstance(rule, partial) and "base" in rule.keywords:
        base = int(rule.keywords["base"])
        return ImageRule(lambda size: base)
    if rule in (count_high_detail_tokens, count_original_detail_tokens) and detail in (
        "high",
        "original",
    ):
        rule = count_high_detail_tokens if detail == "high" else count_original_detail_tokens
    return ImageRule(rule)
