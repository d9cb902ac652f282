"""Units of the coordinates in replies, and their conversion to pixels of the source image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from looktwice.pipelines.geometry import bounds, rectangle
from looktwice.pipelines.models.processors.layouts import Layout
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.view import Part, View
from looktwice.prompting.views.seen import find_layout

FrameName = Literal["pixels", "original", "seen", "0-1", "0-100", "0-999", "0-1000", "native"]
Order = Literal["xy", "yx"]
FRAME_MAXIMA = {"0-1": 1.0, "0-100": 100.0, "0-999": 999.0, "0-1000": 1000.0}


@dataclass(frozen=True)
class Frame:
    """A unit of coordinates: `name`, which number comes first, and whether coordinates are shares
    of the image after padding it to a `square`, centred."""

    name: FrameName
    order: Order = "xy"
    square: bool = False


NATIVE_FRAMES: tuple[tuple[str, Frame], ...] = (
    (r"qwen-?2\.5-?vl|ui-tars-1\.5|claude", Frame("seen")),
    (r"qwen|ui-tars|internvl|cogvlm|cogagent|ferret|glm-?4|minicpm", Frame("0-1000")),
    (r"florence|locateanything|molmo-?2|seed-?1", Frame("0-1000")),
    (r"molmo", Frame("0-100")),
    (r"gemini", Frame("0-1000", "yx")),
    (r"deepseek-?(vl-?2|ocr)|rex-omni", Frame("0-999")),
    (r"shikra|llava-(v?1\.5)", Frame("0-1", square=True)),
    (r"moondream|kosmos|paligemma|kimi-vl|minigpt", Frame("0-1")),
)
"""The frame in which each family writes coordinates, by a pattern of its name; OpenAI documents
none."""


def find_native_frame(model: str) -> Frame | None:
    """Return the frame of a model's family, or None if it is unknown."""
    name = model.rpartition("/")[2].lower()
    return next((frame for pattern, frame in NATIVE_FRAMES if re.search(pattern, name)), None)


def convert_to_source_pixels(
    numbers: Sequence[float], frame: Frame, view: View, size: tuple[int, int], model: str
) -> tuple[float, ...]:
    """Convert a point (x, y) or box (left, top, right, bottom) of a sent image to pixels of its
    source image, whose (width, height) are `size`.

    Points of pixel frames are pixel centres, of other frames shares of the size; results are pixel
    centres. A view whose parts are unknown is taken to show the whole source image. Nothing is
    clipped.
    """
    is_point = len(numbers) == 2
    if frame.name == "original":
        return tuple(numbers)
    if is_point and frame.name in ("pixels", "seen"):
        numbers = [number + 0.5 for number in numbers]
    shares = _to_shares(numbers, frame, view.size, model)
    across, down = view.size
    edges = [share * (down if k % 2 else across) for k, share in enumerate(shares)]
    part = find_part(view, edges)
    if part is None:
        back = [edge * size[k % 2] / view.size[k % 2] for k, edge in enumerate(edges)]
    else:
        corners = rectangle(*(edges * 2 if is_point else edges))
        back = list(bounds(part.affine.inverse.map_polygon(corners)))[: len(edges)]
        if not is_point and (edges[0] > edges[2] or edges[1] > edges[3]):
            back = [back[k] for k in _order_swapped_edges(edges)]
    return tuple(edge - 0.5 for edge in back) if is_point else tuple(back)


def _order_swapped_edges(edges: Sequence[float]) -> tuple[int, ...]:
    """Return the indices that put the edges of a sorted box into the order of `edges`, whose
    opposite corners may be swapped."""
    left, right = (2, 0) if edges[0] > edges[2] else (0, 2)
    top, bottom = (3, 1) if edges[1] > edges[3] else (1, 3)
    return left, top, right, bottom


def _to_shares(
    numbers: Sequence[float], frame: Frame, sent: tuple[int, int], model: str
) -> list[float]:
    """Convert coordinates, measured from pixel edges, to shares of the sent image's width and
    height."""
    if frame.name == "pixels":
        return [number / sent[k % 2] for k, number in enumerate(numbers)]
    if frame.name == "seen":
        layout = require_layout(model, sent)
        offset, seen = layout.offset, layout.size
        return [(number - offset[k % 2]) / seen[k % 2] for k, number in enumerate(numbers)]
    shares = [number / FRAME_MAXIMA[frame.name] for number in numbers]
    if frame.square:
        side = max(sent)
        return [
            (share * side - (side - sent[k % 2]) / 2) / sent[k % 2]
            for k, share in enumerate(shares)
        ]
    return shares


def require_layout(model: str, size: tuple[int, int]) -> Layout:
    """Return how a model sees an image of this size. Raises ValueError if that is unknown."""
    if (layout := find_layout(model, size)) is None:
        raise ValueError(
            f"how {model!r} resizes images is unknown; name a model such as"
            " 'Qwen2.5-VL-7B-Instruct', or use another frame"
        )
    return layout


def find_part(view: View, edges: Sequence[float]) -> Part | None:
    """Return the part of a view in which the middle of a place lies, or else its first part; None
    for a view whose parts are not known."""
    if not view.parts:
        return None
    x, y = ((edges[k] + edges[-2 + k]) / 2 for k in (0, 1))
    at = view.to_source(x - 0.5, y - 0.5)
    return next(
        (part for part in reversed(view.parts) if at and part.source == at[0]), view.parts[0]
    )


def find_source_size(sample: Sample, image: int) -> tuple[int, int]:
    """Return the (width, height) of a sample's image, from the picture or else the meta field
    `sizes`. Raises ValueError if neither is there."""
    try:
        return sample.images[image].size
    except (PictureError, IndexError):
        pass
    sizes = sample.meta.get("sizes")
    if isinstance(sizes, list) and image < len(sizes):
        width, height = sizes[image]
        return int(width), int(height)
    raise ValueError(
        f"sample {sample.id}: the size of its image {image} is unknown, because the run stored only"
        " the sent images; give the meta field `sizes` as [[width, height]], or make this reader a"
        " stage after the one that asks"
    )
