"""How many tokens a picture costs, and how the image processors of open models lay it out for their
encoders.

Of a server's model by the rule that its provider publishes (`RULES`), or a rough one. Of an open
model one function for each kind, and in `PROCESSORS` the numbers of each family's published files;
tests/prompting/views/test_seen.py compares them with transformers' own: equal where no side is
shorter than a patch. Sizes are (width, height) in pixels.
"""

from __future__ import annotations

import re
from ast import literal_eval
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil, floor, sqrt
from typing import Literal, NamedTuple, TypeVar

from looktwice.pipelines.models.wire import Detail

Rule = TypeVar("Rule")
Rules = list[tuple[str, Callable[["Size"], Rule]]]
Size = tuple[int, int]
"""(width, height) in pixels."""
Grid = tuple[int, int]
"""How many tiles across, and how many down."""


@dataclass(frozen=True)
class Layout:
    """A picture as an encoder gets it: resized to `size` (`via` another, where it is resized twice)
    and laid with its corner at `offset` on the `ground` of a `grid` of tiles of `tile` pixels,
    which cut off what stands out; where there is an `overview`, once more whole at that size.

    A token stands for `patch` x `patch` pixels of a tile; where tokens have no place of their own,
    a patch of the encoder does.
    """

    size: Size
    tile: Size
    tokens: int
    patch: int
    grid: Grid = (1, 1)
    offset: Size = (0, 0)
    overview: Size | None = None
    via: Size | None = None
    filter: Literal["bilinear", "bicubic", "lanczos"] = "bicubic"
    ground: tuple[int, int, int] = (0, 0, 0)


def stretched(size: Size, side: int, patch: int, tokens: int = 0, linear: bool = False) -> Layout:
    """A square, whatever the proportions; a token for each patch, or as many as `tokens` says."""
    square, count = (side, side), tokens or (side // patch) ** 2
    return Layout(square, square, count, patch, filter="bilinear" if linear else "bicubic")


def cut(size: Size, side: int, patch: int) -> Layout:
    """The square in the middle, as high as the shorter side."""
    short, long = min(size), max(size)
    width, height = (side if n == short else int(side * long / short) for n in size)
    offset = -((width - side) // 2), -((height - side) // 2)
    return Layout((width, height), (side, side), (side // patch) ** 2, patch, offset=offset)


def padded(size: Size, side: int, patch: int, least: int, tokens: int, middle: bool) -> Layout:
    """The whole in a square: in the middle on grey, or in the upper left corner on black."""
    rounded: Callable[[float], int] = round if middle else int
    scale = side / max(size)
    width, height = (
        side if length == max(size) else max(least, rounded(length * scale)) for length in size
    )
    offset = ((side - width) // 2, (side - height) // 2) if middle else (0, 0)
    ground = (122, 116, 104) if middle else (0, 0, 0)  # the means that CLIP was trained with
    return Layout((width, height), (side, side), tokens, patch, offset=offset, ground=ground)


def whole_patches_size(size: Size, patch: int, least: int, most: int) -> Size:
    """Both sides multiples of `patch`, and `least` to `most` pixels in all: Qwen's rule."""
    width, height = size
    across, down = (max(1, round(side / patch)) for side in size)
    if across * down * patch**2 > most:
        shrink = sqrt(width * height / most)
        across, down = (max(1, floor(side / shrink / patch)) for side in size)
    elif across * down * patch**2 < least:
        growth = sqrt(least / (width * height))
        across, down = (ceil(side * growth / patch) for side in size)
    return across * patch, down * patch


def whole_patches(size: Size, patch: int, least: int, most: int) -> Layout:
    """At its own size, to whole patches, a token each."""
    width, height = whole_patches_size(size, patch, least, most)
    return Layout((width, height), (width, height), width * height // patch**2, patch)


def rows_of_patches(size: Size, patch: int, longest: int) -> Layout:
    """At its own size up to `longest`, rounded up to whole patches; a token each, and one that ends
    each row."""
    ratio = max(1.0, max(size) / longest)
    across, down = (ceil(floor(side / ratio) / patch) for side in size)
    whole = (across * patch, down * patch)
    return Layout(whole, whole, (across + 1) * down, patch)


def bounded(size: Size, shortest: int, longest: int, tokens: int, patch: int) -> Layout:
    """At its own size within bounds, and as many tokens for every size."""
    width, height = _on_longest(size, longest) if max(size) > longest else size
    whole = max(shortest, width), max(shortest, height)
    return Layout(whole, whole, tokens, patch, filter="bilinear")


def tiles_by_proportions(size: Size, tile: int, most: int, tokens: int, patch: int) -> Layout:
    """Stretched to the grid of at most `most` tiles whose proportions are nearest, and once more
    whole."""
    ratio, best, nearest = size[0] / size[1], (1, 1), float("inf")
    for across, down in sorted(_grids(most), key=lambda grid: grid[0] * grid[1]):
        off, large = abs(ratio - across / down), size[0] * size[1] > tile**2 * across * down / 2
        if off < nearest or (off == nearest and large):
            nearest, best = off, (across, down)
    return _stretched_tiles(best, tile, tokens, patch)


def tiles_of_list(
    size: Size, tile: int, patch: int, grids: Iterable[Grid], most: int = 0
) -> Layout:
    """In the middle of the grid, of those listed, that keeps most of it, and once more whole; rows
    of tokens that see no picture are left out, and with `most` tiles worth of tokens they are
    thinned."""
    width, height = size

    def worth(grid: Grid) -> tuple[int, int]:
        scale = min(tile * grid[0] / width, tile * grid[1] / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, kept - tile**2 * grid[0] * grid[1]

    grid = max(grids, key=worth)
    frame = (tile * grid[0], tile * grid[1])
    whole = _within(size, frame, ceil)
    cells = tile // patch
    across, down = cells * grid[0], cells * grid[1]
    if width / height > across / down:
        down -= (down - int(round(height * (across / width), 7))) // 2 * 2
    else:
        across -= (across - int(round(width * (down / height), 7))) // 2 * 2
    if most and (ratio := sqrt(across * down / (most * cells**2))) > 1.1:
        across, down = int(across // ratio), int(down // ratio)
    square, count = (tile, tile), cells**2 + across * down + down
    offset = (frame[0] - whole[0]) // 2, (frame[1] - whole[1]) // 2
    return Layout(whole, square, count, patch, grid, offset, overview=square)


def tiles_on_longest(size: Size, longest: int, tile: int, tokens: int, patch: int) -> Layout:
    """Its longer side brought to `longest`, then stretched to whole tiles, and once more whole."""
    width, height = _on_longest(size, longest)
    via = (width, height + height % 2) if size[0] >= size[1] else (width + width % 2, height)
    ratio = via[0] / via[1]
    if via[0] >= via[1]:
        across = ceil(via[0] / tile)
        grid = across, ceil(int(across * tile / ratio) / tile)
    else:
        down = ceil(via[1] / tile)
        grid = ceil(int(down * tile * ratio) / tile), down
    return replace(_stretched_tiles(grid, tile, tokens, patch), via=via, filter="lanczos")


def tiles_on_canvas(size: Size, tile: int, most: int, tokens: int, patch: int) -> Layout:
    """In the upper left corner of the canvas of at most `most` tiles that enlarges least, or else
    shrinks least."""
    width, height = size
    scales = {grid: min(tile * grid[0] / width, tile * grid[1] / height) for grid in _grids(most)}
    larger = (scale for scale in scales.values() if scale >= 1)
    chosen = min(larger, default=max(scales.values()))
    across, down = min(
        (grid for grid, scale in scales.items() if scale == chosen),
        key=lambda grid: (grid[0] * grid[1], grid[1]),
    )
    room = min(max(width, tile), tile * across), min(max(height, tile), tile * down)
    whole, count = _within(size, room, floor), tokens * across * down
    return Layout(whole, (tile, tile), count, patch, (across, down), filter="bilinear")


def _stretched_tiles(grid: Grid, tile: int, tokens: int, patch: int) -> Layout:
    """All tiles of a grid and, where there are several, once more the whole."""
    across, down = grid
    square, several = (tile, tile), grid != (1, 1)
    count = tokens * (across * down + several)
    overview = square if several else None
    return Layout((tile * across, tile * down), square, count, patch, grid, overview=overview)


def _within(size: Size, room: Size, rounded: Callable[[float], int]) -> Size:
    """As large as there is room, in proportion; the side that does not fill it is `rounded`."""
    across, down = room[0] / size[0], room[1] / size[1]
    if across < down:
        return room[0], min(room[1], rounded(size[1] * across) or 1)
    return min(room[0], rounded(size[0] * down) or 1), room[1]


def _grids(most: int) -> list[Grid]:
    """All grids of at most `most` tiles, by how many are across, then down."""
    counts = range(1, most + 1)
    return [(across, down) for across, down in product(counts, counts) if across * down <= most]


def _on_longest(size: Size, longest: int) -> Size:
    """The longer side at `longest`, the other in proportion, rounded down."""
    ratio = size[0] / size[1]
    if size[0] >= size[1]:
        return longest, max(1, int(longest / ratio))
    return max(1, int(longest * ratio)), longest


ANY_RESOLUTION: tuple[Grid, ...] = ((2, 1), (1, 2), (2, 2), (1, 3), (3, 1))
BY_SIX: tuple[Grid, ...] = tuple((across, down) for down, across in product(range(1, 7), repeat=2))
KINDS: dict[str, Callable[..., Layout]] = {
    "tiles_of_five": partial(tiles_of_list, grids=ANY_RESOLUTION),
    "tiles_by_six": partial(tiles_of_list, grids=BY_SIX),
    "tiles_by_proportions": tiles_by_proportions,
    "tiles_on_longest": tiles_on_longest,
    "tiles_on_canvas": tiles_on_canvas,
    "whole_patches": whole_patches,
    "rows_of_patches": rows_of_patches,
    "bounded": bounded,
    "padded": padded,
    "stretched": stretched,
    "cut": cut,
}
# how a model's name begins, its kind, and the numbers of its processor's file
TABLE = r"""
llava-(v?1\.6|next-\d)                    tiles_of_five tile=336 patch=14
llava-onevision-(?!1)                     tiles_by_six tile=384 patch=14 most=9
llava-v?1\.5                              cut side=336 patch=14
qwen3(\.\d+)?-vl                          whole_patches patch=32 least=65_536 most=16_777_216
qwen2(\.5)?-vl|qvq|deepeyes|mini-o3|thyme whole_patches patch=28 least=3_136 most=12_845_056
glm-4\.[15]v                              whole_patches patch=28 least=6_272 most=4_816_896
ernie-4\.5-vl                             whole_patches patch=28 least=3_136 most=4_842_768
paddleocr-vl                              whole_patches patch=28 least=147_456 most=2_359_296
pixtral-12b                               rows_of_patches patch=16 longest=1024
mistral-small-3\.[1-9]                    rows_of_patches patch=28 longest=1540
internvl                                  tiles_by_proportions tile=448 most=12 tokens=256 patch=28
idefics3                                  tiles_on_longest longest=1456 tile=364 tokens=169 patch=28
smolvlm2?-(256|500)m                      tiles_on_longest longest=2048 tile=512 tokens=64 patch=64
idefics2                                  bounded shortest=378 longest=980 tokens=64 patch=14
llama-3\.2-\d+b-vision                    tiles_on_canvas tile=560 most=4 tokens=1601 patch=14
deepseek-vl-|janus                        padded side=384 patch=16 least=14 tokens=576 middle=1
aria(-|$)                                 padded side=980 patch=14 least=336 tokens=256 middle=0
paligemma.*-448                           stretched side=448 patch=14
paligemma.*-896                           stretched side=896 patch=14
paligemma                                 stretched side=224 patch=14
gemma-3-                                  stretched side=896 patch=56 linear=1
blip2|instructblip                        stretched side=224 patch=14 tokens=32
"""


def read_rules(table: str, kinds: Mapping[str, Callable[..., Rule]]) -> Rules[Rule]:
    """How a model's name begins, in small letters, and the rule for its pictures, by the lines of a
    table."""
    rules = []
    for line in table.strip().splitlines():
        beginning, kind, *numbers = line.split()
        settings = (number.split("=") for number in numbers)
        given = {name: literal_eval(value) for name, value in settings}
        rules.append((beginning, partial(kinds[kind], **given) if given else kinds[kind]))
    return rules


PROCESSORS = read_rules(TABLE, KINDS)


def processor_of(model: str) -> Callable[[Size], Layout] | None:
    """The rule of an open model by its name, without its owner's; None where there is none."""
    return _find_rule(model, PROCESSORS)


def _find_rule(model: str, rules: Rules[Rule]) -> Callable[[Size], Rule] | None:
    """The first that fits."""
    name = model.rpartition("/")[2].lower()
    return next((rule for beginning, rule in rules if re.match(beginning, name)), None)


CELL = 28  # pixels of a side that one token stands for: Claude's, Qwen's, and our guess for others


class ImageRule(NamedTuple):
    """The tokens of a picture of a size, and whether the model's provider publishes this rule."""

    tokens: Callable[[Size], int]
    published: bool = True


def openai_tiles(size: Size, base: int, tile: int) -> int:
    """OpenAI's rule by tiles of 512 pixels: fit into 2,048, then the short side to 768; nothing is
    enlarged."""
    scale = min(1.0, 2048 / max(size))
    scale *= min(1.0, 768 / (min(size) * scale))
    across, down = (ceil(round(side * scale) / 512) for side in size)
    return base + tile * across * down


def openai_patches(
    size: Size, budget: int = 1536, longest: int | None = None, factor: float = 1.0
) -> int:
    """OpenAI's rule by patches of 32 pixels, as many as the budget allows; `longest` bounds the
    sides before."""
    scale = min(1.0, longest / max(size)) if longest else 1.0
    across, down = (side * scale / 32 for side in size)
    if ceil(across) * ceil(down) > budget:
        shrink = sqrt(budget / (across * down))
        across, down = across * shrink, down * shrink
        whole = min(floor(across) / across, floor(down) / down)
        across, down = across * whole, down * whole
    return ceil(round(factor * ceil(round(across, 6)) * ceil(round(down, 6)), 6))


def claude_tokens(size: Size, longest: int = 1568, budget: int = 1568) -> int:
    """Anthropic's rule: the cells of 28 pixels of the picture as Claude sees it."""
    return count_cells(claude_size(size, longest, budget))


def claude_size(size: Size, longest: int = 1568, budget: int = 1568) -> Size:
    """The size at which Claude sees a picture, in which it also gives places: the largest that
    keeps both bounds."""
    long, short = max(size), min(size)

    def too_large(side: int) -> bool:
        resized = side, max(1, round(short * side / long))
        return ceil(side / CELL) * CELL > longest or count_cells(resized) > budget

    side = max(1, bisect_left(range(1, long + 1), True, key=too_large))
    short_side = max(1, round(short * side / long))
    return (side, short_side) if size[0] >= size[1] else (short_side, side)


def gemini_tiles(size: Size) -> int:
    """Google's rule for Gemini 2: 258 for a small picture, else 258 for each square of two thirds
    of its short side."""
    if max(size) <= 384:
        return 258
    unit = floor(min(size) / 1.5)
    return 258 * ceil(size[0] / unit) * ceil(size[1] / unit) if unit else 258


def count_cells(size: Size) -> int:
    """One token for each 28 x 28 pixels, partly filled ones included."""
    return ceil(size[0] / CELL) * ceil(size[1] / CELL)


HIGH = partial(openai_patches, budget=2500, longest=2048)
HIGH_CLAUDE = r"claude-opus-4[.-][7-9]|claude-[a-z]+-[5-9]"
ORIGINAL = partial(openai_patches, budget=10_000, longest=6000)
PUBLISHED = rf"""
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
{HIGH_CLAUDE} claude longest=2576 budget=4784
claude                           claude
gemini-3                         gemini_3
gemini-2                         gemini_2
"""
COSTS: dict[str, Callable[..., int]] = {
    "tiles": openai_tiles,
    "patches": openai_patches,
    "high": HIGH,
    "original": ORIGINAL,
    "claude": claude_tokens,
    "gemini_3": lambda size: 1120,
    "gemini_2": gemini_tiles,
}
RULES = read_rules(PUBLISHED, COSTS)


def image_rule(model: str, detail: Detail | None = None) -> ImageRule:
    """The rule of a model by its name, also where its provider's stands before it
    ("openai/gpt-4o")."""
    if layout := processor_of(model):
        return ImageRule(lambda size: layout(size).tokens)
    rule = _find_rule(model, RULES)
    if rule is None:
        return ImageRule(count_cells, published=False)
    if detail == "low" and isinstance(rule, partial) and "base" in rule.keywords:
        base = int(rule.keywords["base"])
        return ImageRule(lambda size: base)
    if rule in (HIGH, ORIGINAL) and detail in ("high", "original"):
        rule = HIGH if detail == "high" else ORIGINAL
    return ImageRule(rule)
