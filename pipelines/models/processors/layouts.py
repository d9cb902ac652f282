"""Image processors of open models: the layout in which each passes a picture to its encoder.

Each kind of processor is a function, and `PROCESSORS` holds the numbers of each family's published
files; tests/prompting/views/test_seen.py compares them with transformers' own classes. Sizes are
(width, height) in pixels.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil, floor, log, sqrt
from typing import Literal, TypeVar

Rule = TypeVar("Rule")
Rules = list[tuple[str, Callable[["Size"], Rule]]]
Size = tuple[int, int]
"""(width, height) in pixels."""
Grid = tuple[int, int]
"""The number of tiles across, and down."""
Stack = Literal["transformers", "mistral-common"]
"""The software that prepares pictures for a model."""
Filter = Literal["bilinear", "bicubic", "lanczos", "opencv cubic"]
"""Pillow's filters, which antialias when shrinking, or OpenCV's, which does not."""
MAX_ASPECT_RATIO = 200  # times its shorter side: the limit of Qwen's rule and its derivatives


@dataclass(frozen=True)
class Layout:
    """A picture as an encoder receives it.

    It is resized to `size` (first to `intermediate_size`, if it is resized twice) and placed with
    its top-left corner at `offset` on the `background` of a `grid` of tiles of `tile` pixels, which
    crop what extends beyond them. If `overview` is set, the whole picture follows once more at that
    size. A token covers `patch` x `patch` pixels of a tile; if tokens have no position of their
    own, `patch` is the side of an encoder patch. `refusal` says why the reference implementation
    rejects a picture of this size; the numbers are then those of a picture that it would accept.
    """

    size: Size
    tile: Size
    tokens: int
    patch: int
    grid: Grid = (1, 1)
    offset: Size = (0, 0)
    overview: Size | None = None
    intermediate_size: Size | None = None
    filter: Filter = "bicubic"
    background: tuple[int, int, int] = (0, 0, 0)
    refusal: str = ""


def stretch_to_square(
    size: Size, side: int, patch: int, tokens: int = 0, linear: bool = False
) -> Layout:
    """Stretch to a square, ignoring the aspect ratio; one token per patch, or `tokens` in all."""
    square, count = (side, side), tokens or (side // patch) ** 2
    return Layout(square, square, count, patch, filter="bilinear" if linear else "bicubic")


def crop_center_square(size: Size, side: int, patch: int) -> Layout:
    """Scale the shorter side to `side`, and crop the square in the centre."""
    short, long = min(size), max(size)
    width, height = (side if n == short else int(side * long / short) for n in size)
    offset = -((width - side) // 2), -((height - side) // 2)
    return Layout((width, height), (side, side), (side // patch) ** 2, patch, offset=offset)


def pad_to_square(
    size: Size, side: int, patch: int, min_side: int, tokens: int, centered: bool
) -> Layout:
    """Fit the whole picture into a square: centred on grey (`centered`), or in the top left corner
    on black."""
    rounded: Callable[[float], int] = round if centered else int
    scale = side / max(size)
    width, height = (
        side if length == max(size) else max(min_side, rounded(length * scale)) for length in size
    )
    offset = ((side - width) // 2, (side - height) // 2) if centered else (0, 0)
    # grey by the means that CLIP was trained with
    background = (122, 116, 104) if centered else (0, 0, 0)
    return Layout(
        (width, height), (side, side), tokens, patch, offset=offset, background=background
    )


def compute_qwen_size(
    size: Size, patch: int, min_px: int, max_px: int, min_patches: Literal[0, 1] = 1
) -> Size:
    """Return Qwen's size: both sides multiples of `patch`, and `min_px` to `max_px` pixels in all.

    A side is first rounded to at least `min_patches` patches: 1 in Qwen's own tool, 0 in
    transformers, which then enlarges the picture.
    """
    width, height = size
    across, down = (max(min_patches, round(side / patch)) for side in size)
    if across * down * patch**2 > max_px:
        shrink = sqrt(width * height / max_px)
        across, down = (max(1, floor(side / shrink / patch)) for side in size)
    elif across * down * patch**2 < min_px:
        growth = sqrt(min_px / (width * height))
        across, down = (ceil(side * growth / patch) for side in size)
    return max(1, across) * patch, max(1, down) * patch


def round_to_patches(
    size: Size, patch: int, min_px: int, max_px: int, grow: Literal[0, 1, 2] = 0
) -> Layout:
    """Keep the picture's own size, rounded to whole patches with one token each.

    A picture with a side below a patch is enlarged first: with `grow` 1, by the factor that both
    sides need, truncated; with 2, for its height and then for its width, rounded.
    """
    width, height = size
    if grow == 1 and min(size) < patch:
        growth = max(patch / height, patch / width)
        width, height = int(width * growth), int(height * growth)
    if grow == 2 and height < patch:
        width, height = round(width * patch / height), patch
    if grow == 2 and width < patch:
        width, height = patch, round(height * patch / width)
    longer = max(width, height) / min(width, height) > MAX_ASPECT_RATIO
    refusal = f"its longer side is over {MAX_ASPECT_RATIO} times its shorter side" if longer else ""
    seen = compute_qwen_size((width, height), patch, min_px, max_px, min_patches=0)
    return Layout(seen, seen, seen[0] * seen[1] // patch**2, patch, refusal=refusal)


def keep_size(size: Size, patch: int, longest: int, stack: Stack = "transformers") -> Layout:
    """Keep the picture's own size up to `longest`, rounded up to whole patches; one token per
    patch, and one at the end of each row."""
    ratio, refusal = max(1.0, max(size) / longest), ""
    if stack == "transformers":
        sides = [floor(side / ratio) for side in size]
        refusal = "its shorter side would shrink to 0 pixels" if not min(sides) else ""
    else:
        sides = [round(side / ratio) for side in size]
    across, down = (ceil(max(1, side) / patch) for side in sides)
    whole, tokens = (across * patch, down * patch), (across + 1) * down
    resized: Filter = "bicubic" if stack == "transformers" else "opencv cubic"
    return Layout(whole, whole, tokens, patch, filter=resized, refusal=refusal)


def fit_patches(size: Size, patch: int, tokens: int) -> Layout:
    """Scale in proportion to fill `tokens` patches, each side rounded down to whole patches."""
    factor = sqrt(tokens * patch**2 / (size[0] * size[1]))
    across, down = (floor(factor * side / patch) for side in size)
    if not down:
        across, down = min(size[0] // size[1], tokens), 1
    elif not across:
        across, down = 1, min(size[1] // size[0], tokens)
    whole = (across * patch, down * patch)
    return Layout(whole, whole, across * down, patch)


def slice_by_area(size: Size, side: int, max_slices: int, patch: int) -> Layout:
    """Stretch to the grid of at most `max_slices` slices of about `side` x `side` pixels with the
    most similar aspect ratio, and add the whole picture, both in whole patches; a small picture is
    enlarged."""
    grid = _slice_grid(size, side, max_slices)
    several = grid != (1, 1)
    whole = _fit_near_square(size, side, patch, several)
    if not several:
        return Layout(whole, whole, whole[0] * whole[1] // patch**2, patch)
    parts = [
        max(round(n / cells) * cells, cells) / cells for n, cells in zip(size, grid, strict=True)
    ]
    tile = _fit_near_square((parts[0], parts[1]), side, patch, False)
    count = whole[0] * whole[1] // patch**2 + grid[0] * grid[1] * (tile[0] * tile[1] // patch**2)
    full = (tile[0] * grid[0], tile[1] * grid[1])
    return Layout(full, tile, count, patch, grid, overview=whole)


def _slice_grid(size: Size, side: int, max_slices: int) -> Grid:
    """Return the grid with the most similar aspect ratio whose number of slices approximates the
    picture's area."""
    wanted, target_count = (
        log(size[0] / size[1]),
        min(ceil(size[0] * size[1] / side**2), max_slices),
    )
    best, nearest = (1, 1), float("inf")
    for count in (target_count - 1, target_count, target_count + 1) if target_count > 1 else ():
        for down in range(1, count + 1) if 1 < count <= max_slices else ():
            if count % down == 0:
                off = abs(wanted - log(count // down / down))
                if off < nearest or (off == nearest and down > best[1]):
                    best, nearest = (count // down, down), off
    return best


def _fit_near_square(size: tuple[float, float], side: int, patch: int, keep: bool) -> Size:
    """Return the size in whole patches that has the area of a square and the picture's aspect
    ratio; with `keep`, a smaller picture is not enlarged."""
    width, height = size
    if width * height > side**2 or not keep:
        ratio = width / height
        height = int(side / sqrt(ratio))
        width = int(height * ratio)
    return max(round(width / patch), 1) * patch, max(round(height / patch), 1) * patch


def bound_sides(size: Size, shortest: int, longest: int, tokens: int, patch: int) -> Layout:
    """Keep the picture's own size within bounds, with a fixed number of tokens."""
    width, height = _fit_longest(size, longest) if max(size) > longest else size
    whole = max(shortest, width), max(shortest, height)
    return Layout(whole, whole, tokens, patch, filter="bilinear")


def tile_by_aspect_ratio(size: Size, tile: int, max_tiles: int, tokens: int, patch: int) -> Layout:
    """Stretch to the grid of at most `max_tiles` tiles with the most similar aspect ratio, and add
    the whole picture."""
    ratio, best, nearest = size[0] / size[1], (1, 1), float("inf")
    for across, down in sorted(_list_grids(max_tiles), key=lambda grid: grid[0] * grid[1]):
        off, large = abs(ratio - across / down), size[0] * size[1] > tile**2 * across * down / 2
        if off < nearest or (off == nearest and large):
            nearest, best = off, (across, down)
    return _layout_stretched_tiles(best, tile, tokens, patch)


def place_on_listed_grid(
    size: Size, tile: int, patch: int, grids: Iterable[Grid], max_tiles: int = 0
) -> Layout:
    """Centre the picture in the listed grid that keeps most of it, and add the whole picture.

    Rows of tokens that show only padding are left out; if the tokens of more than `max_tiles` tiles
    remain, they are downsampled.
    """
    width, height = size

    def rate_grid(grid: Grid) -> tuple[int, int]:
        scale = min(tile * grid[0] / width, tile * grid[1] / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, kept - tile**2 * grid[0] * grid[1]

    grid = max(grids, key=rate_grid)
    frame = (tile * grid[0], tile * grid[1])
    whole = _fit_within(size, frame, ceil)
    cells = tile // patch
    across, down = cells * grid[0], cells * grid[1]
    if width / height > across / down:
        down -= (down - int(round(height * (across / width), 7))) // 2 * 2
    else:
        across -= (across - int(round(width * (down / height), 7))) // 2 * 2
    if max_tiles and (ratio := sqrt(across * down / (max_tiles * cells**2))) > 1.1:
        across, down = int(across // ratio), int(down // ratio)
    square, count = (tile, tile), cells**2 + across * down + down
    offset = (frame[0] - whole[0]) // 2, (frame[1] - whole[1]) // 2
    return Layout(whole, square, count, patch, grid, offset, overview=square)


def tile_longest_side(size: Size, longest: int, tile: int, tokens: int, patch: int) -> Layout:
    """Scale the longer side to `longest`, stretch to whole tiles, and add the whole picture."""
    width, height = _fit_longest(size, longest)
    fitted = (width, height + height % 2) if size[0] >= size[1] else (width + width % 2, height)
    ratio = fitted[0] / fitted[1]
    if fitted[0] >= fitted[1]:
        across = ceil(fitted[0] / tile)
        grid = across, ceil(int(across * tile / ratio) / tile)
    else:
        down = ceil(fitted[1] / tile)
        grid = ceil(int(down * tile * ratio) / tile), down
    return replace(
        _layout_stretched_tiles(grid, tile, tokens, patch),
        intermediate_size=fitted,
        filter="lanczos",
    )


def place_on_canvas(size: Size, tile: int, max_tiles: int, tokens: int, patch: int) -> Layout:
    """Place the picture in the upper left corner of a canvas of at most `max_tiles` tiles: the
    canvas on which it is enlarged least or, if it must shrink on every canvas, shrinks least."""
    width, height = size
    scales = {
        grid: min(tile * grid[0] / width, tile * grid[1] / height)
        for grid in _list_grids(max_tiles)
    }
    larger = (scale for scale in scales.values() if scale >= 1)
    chosen = min(larger, default=max(scales.values()))
    across, down = min(
        (grid for grid, scale in scales.items() if scale == chosen),
        key=lambda grid: (grid[0] * grid[1], grid[1]),
    )
    room = min(max(width, tile), tile * across), min(max(height, tile), tile * down)
    whole, count = _fit_within(size, room, floor), tokens * across * down
    return Layout(whole, (tile, tile), count, patch, (across, down), filter="bilinear")


def _layout_stretched_tiles(grid: Grid, tile: int, tokens: int, patch: int) -> Layout:
    """Return the layout of all tiles of a grid and, if there are several, of the whole picture."""
    across, down = grid
    square, several = (tile, tile), grid != (1, 1)
    count = tokens * (across * down + several)
    overview = square if several else None
    return Layout((tile * across, tile * down), square, count, patch, grid, overview=overview)


def _fit_within(size: Size, frame: Size, rounded: Callable[[float], int]) -> Size:
    """Return the largest proportional size that fits into `frame`; `rounded` rounds the side that
    does not fill it."""
    across, down = frame[0] / size[0], frame[1] / size[1]
    if across < down:
        return frame[0], min(frame[1], rounded(size[1] * across) or 1)
    return min(frame[0], rounded(size[0] * down) or 1), frame[1]


def _list_grids(max_tiles: int) -> list[Grid]:
    """Return all grids of at most `max_tiles` tiles, sorted by the number across, then down."""
    counts = range(1, max_tiles + 1)
    return [
        (across, down) for across, down in product(counts, counts) if across * down <= max_tiles
    ]


def _fit_longest(size: Size, longest: int) -> Size:
    """Return the size with the longer side at `longest`, the other in proportion, rounded down."""
    ratio = size[0] / size[1]
    if size[0] >= size[1]:
        return longest, max(1, int(longest / ratio))
    return max(1, int(longest * ratio)), longest


ANY_RESOLUTION_GRIDS: tuple[Grid, ...] = ((2, 1), (1, 2), (2, 2), (1, 3), (3, 1))
GRIDS_BY_SIX: tuple[Grid, ...] = tuple(
    (across, down) for down, across in product(range(1, 7), repeat=2)
)
PROCESSOR_KINDS: dict[str, Callable[..., Layout]] = {
    "tiles_of_five": partial(place_on_listed_grid, grids=ANY_RESOLUTION_GRIDS),
    "tiles_by_six": partial(place_on_listed_grid, grids=GRIDS_BY_SIX),
    "tiles_by_ratio": tile_by_aspect_ratio,
    "tiles_on_longest": tile_longest_side,
    "tiles_on_canvas": place_on_canvas,
    "whole_patches": round_to_patches,
    "keep_size": keep_size,
    "patches_within": fit_patches,
    "slices": slice_by_area,
    "bounded": bound_sides,
    "padded": pad_to_square,
    "stretched": stretch_to_square,
    "cut": crop_center_square,
}
# a pattern for a model's name, its kind, and the numbers in its processor's file
PROCESSOR_TABLE = r"""
llava-(v?1\.6|next-\d)                 tiles_of_five tile=336 patch=14
llava-onevision-(?!1)                  tiles_by_six tile=384 patch=14 max_tiles=9
llava-v?1\.5                           cut side=336 patch=14
qwen3(\.\d+)?-vl|qwen3\.[5-9]-         whole_patches patch=32 min_px=65_536 max_px=16_777_216
qwen2(\.5)?-vl|qvq|deepeyes|mini-o3|thyme whole_patches patch=28 min_px=3_136 max_px=12_845_056
qwen3-omni                             whole_patches patch=32 min_px=3_136 max_px=12_845_056
glm-4\.[156]v                          whole_patches patch=28 min_px=6_272 max_px=4_816_896 grow=1
ernie-4\.5-vl                          whole_patches patch=28 min_px=3_136 max_px=4_842_768
paddleocr-vl                           whole_patches patch=28 min_px=147_456 max_px=2_359_296 grow=2
pixtral-12b                            keep_size patch=16 longest=1024
mistral-small-3\.[1-9]|mistral-large-4 keep_size patch=28 longest=1540
internvl                               tiles_by_ratio tile=448 max_tiles=12 tokens=256 patch=28
idefics3                               tiles_on_longest longest=1456 tile=364 tokens=169 patch=28
smolvlm2?-(256|500)m                   tiles_on_longest longest=2048 tile=512 tokens=64 patch=64
idefics2                               bounded shortest=378 longest=980 tokens=64 patch=14
llama-3\.2-\d+b-vision                 tiles_on_canvas tile=560 max_tiles=4 tokens=1601 patch=14
deepseek-vl-|janus                     padded side=384 patch=16 min_side=14 tokens=576 centered=1
aria(-|$)                              padded side=980 patch=14 min_side=336 tokens=256 centered=0
paligemma.*-448                        stretched side=448 patch=14
paligemma.*-896                        stretched side=896 patch=14
paligemma                              stretched side=224 patch=14
gemma-4-                               patches_within patch=48 tokens=280
minicpm-v-4[._][67]                    slices side=448 max_slices=9 patch=56
gemma-3-                               stretched side=896 patch=56 linear=1
blip2|instructblip                     stretched side=224 patch=14 tokens=32
"""


def read_rules(table: str, kinds: Mapping[str, Callable[..., Rule]]) -> Rules[Rule]:
    """Parse a table of rules into pairs of a pattern, for the beginning of a model's name in lower
    case, and the rule for its pictures."""
    rules = []
    for line in table.strip().splitlines():
        beginning, kind, *numbers = line.split()
        settings = (number.split("=") for number in numbers)
        given = {name: literal_eval(value) for name, value in settings}
        rules.append((beginning, partial(kinds[kind], **given) if given else kinds[kind]))
    return rules


PROCESSORS = read_rules(PROCESSOR_TABLE, PROCESSOR_KINDS)


def find_processor(model: str, stack: Stack = "transformers") -> Callable[[Size], Layout] | None:
    """Return the layout rule of an open model in one stack, by its name without the owner, or
    None."""
    rule = find_rule(model, PROCESSORS)
    if rule is None or stack == "transformers":
        return rule
    if not isinstance(rule, partial) or rule.func is not keep_size:
        return None
    return partial(keep_size, **rule.keywords, stack=stack)


def find_rule(model: str, rules: Rules[Rule]) -> Callable[[Size], Rule] | None:
    """Return the first rule of a list that matches a model's name without the owner, or None."""
    name = model.rpartition("/")[2].lower()
    return next((rule for beginning, rule in rules if re.match(beginning, name)), None)
