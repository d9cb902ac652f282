"""How the image processors of open models lay a picture out for their encoders, and how many tokens
that takes.

One function for each kind, and in `PROCESSORS` the numbers of each family's published files; sizes
are (width, height) in pixels. tests/prompting/views/test_seen.py compares them with transformers'
own: equal where no side is shorter than a patch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil, floor, sqrt
from typing import Literal

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
    return Layout(
        whole,
        (tile, tile),
        cells**2 + across * down + down,
        patch,
        grid,
        ((frame[0] - whole[0]) // 2, (frame[1] - whole[1]) // 2),
        (tile, tile),
    )


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
PROCESSORS: tuple[tuple[str, Callable[[Size], Layout]], ...] = (
    (r"llava-(v?1\.6|next-\d)", partial(tiles_of_list, tile=336, patch=14, grids=ANY_RESOLUTION)),
    (r"llava-onevision-(?!1)", partial(tiles_of_list, tile=384, patch=14, grids=BY_SIX, most=9)),
    (r"llava-v?1\.5", partial(cut, side=336, patch=14)),
    (r"qwen3(\.\d+)?-vl", partial(whole_patches, patch=32, least=65_536, most=16_777_216)),
    (
        r"qwen2(\.5)?-vl|qvq|deepeyes|mini-o3|thyme",
        partial(whole_patches, patch=28, least=3_136, most=12_845_056),
    ),
    (r"glm-4\.[15]v", partial(whole_patches, patch=28, least=6_272, most=4_816_896)),
    (r"ernie-4\.5-vl", partial(whole_patches, patch=28, least=3_136, most=4_842_768)),
    (r"paddleocr-vl", partial(whole_patches, patch=28, least=147_456, most=2_359_296)),
    (r"pixtral-12b", partial(rows_of_patches, patch=16, longest=1024)),
    (r"mistral-small-3\.[1-9]", partial(rows_of_patches, patch=28, longest=1540)),
    (r"internvl", partial(tiles_by_proportions, tile=448, most=12, tokens=256, patch=28)),
    (r"idefics3", partial(tiles_on_longest, longest=1456, tile=364, tokens=169, patch=28)),
    (
        r"smolvlm2?-(256|500)m",
        partial(tiles_on_longest, longest=2048, tile=512, tokens=64, patch=64),
    ),
    (r"idefics2", partial(bounded, shortest=378, longest=980, tokens=64, patch=14)),
    (r"llama-3\.2-\d+b-vision", partial(tiles_on_canvas, tile=560, most=4, tokens=1601, patch=14)),
    (r"deepseek-vl-|janus", partial(padded, side=384, patch=16, least=14, tokens=576, middle=True)),
    (r"aria(-|$)", partial(padded, side=980, patch=14, least=336, tokens=256, middle=False)),
    (r"paligemma.*-448", partial(stretched, side=448, patch=14)),
    (r"paligemma.*-896", partial(stretched, side=896, patch=14)),
    (r"paligemma", partial(stretched, side=224, patch=14)),
    (r"gemma-3-", partial(stretched, side=896, patch=56, linear=True)),
    (r"blip2|instructblip", partial(stretched, side=224, patch=14, tokens=32)),
)
"""How a model's name begins, in small letters, and how its processor lays pictures out: the first
that fits counts."""


def processor_of(model: str) -> Callable[[Size], Layout] | None:
    """The rule of an open model by its name, without its owner's; None where there is none."""
    name = model.rpartition("/")[2].lower()
    return next((rule for beginning, rule in PROCESSORS if re.match(beginning, name)), None)
