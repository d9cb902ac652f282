"""A place in an answer or a correct answer, and its formats in answers and files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.extras.grounding.library import import_library
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.marks import Mark, Mask, Point, mark_from_dict, mask_bounds

Form = Literal["xyxy", "xywh"]
"""The four numbers of a box: left, top, right, bottom; or left, top, width, height."""
PIXEL_DECIMALS = 3  # of a pixel in answers


@dataclass(frozen=True, eq=False)
class Place:
    """A point (x, y), in pixel centres, or a box (left, top, right, bottom), in edges, of source
    image number `image`, in pixels of that image.

    `score` is a confidence in 0..1, None if there is none. A place of a correct answer may have a
    `mask`, HxW, or a `source`, the object of a file from which it is decoded when it is needed (see
    `region`); it lies within the box. A place may be a `crowd` (a box around many objects, in which
    any number of answers may lie), or one to `ignore`, which need not be found.
    """

    numbers: tuple[float, ...]
    label: str = ""
    score: float | None = None
    image: int = 0
    mask: NDArray[np.bool_] | None = None
    crowd: bool = False
    ignore: bool = False
    source: Mapping[str, Any] | None = None

    @cached_property
    def region(self) -> NDArray[np.bool_] | None:
        """The mask, decoded, or None. Raises ValueError if it cannot be decoded."""
        return self.mask if self.source is None else _read_mask(self.source)

    @property
    def is_box(self) -> bool:
        """True for a box, False for a point."""
        return len(self.numbers) == 4

    @property
    def has_area(self) -> bool:
        """True for a box whose corners are in order."""
        return (
            self.is_box and self.numbers[0] < self.numbers[2] and self.numbers[1] < self.numbers[3]
        )

    @property
    def area(self) -> float:
        """The area of the mask, or else of the box, in square pixels; 0 for a point."""
        if self.region is not None:
            return float(self.region.sum())
        if not self.has_area:
            return 0.0
        left, top, right, bottom = self.numbers
        return (right - left) * (bottom - top)

    @property
    def is_optional(self) -> bool:
        """True for a place that need not be found: a crowd, or one to ignore."""
        return self.crowd or self.ignore

    def to_dict(self) -> dict[str, Any]:
        """Return the place in the form used in answers."""
        numbers = [_round_number(number) for number in self.numbers]
        plain: dict[str, Any] = {"label": self.label} if self.label else {}
        plain["box" if self.is_box else "point"] = numbers
        if self.score is not None:
            plain["score"] = self.score
        return plain | ({"image": self.image} if self.image else {})

    def to_truth(self) -> dict[str, Any]:
        """Return the place in the form used in an item's truth, with mask and flags."""
        plain = self.to_dict()
        if self.region is not None:
            mask = Mask("", self.region).to_dict()
            plain["mask"] = {name: mask[name] for name in ("size", "counts")}
        flags = {"crowd": self.crowd, "ignore": self.ignore}
        return plain | {name: True for name, given in flags.items() if given}


Places = tuple[Place, ...]


def _round_number(number: float) -> float:
    rounded = round(number, PIXEL_DECIMALS)
    return int(rounded) if rounded == int(rounded) else rounded


def format_places(places: Iterable[Place]) -> str:
    """Format places as the answer of a sample: a JSON list of objects with `box` or `point`, and
    `label`, `score` and `image` if they are known."""
    return json.dumps([place.to_dict() for place in places], ensure_ascii=False)


def parse_places(answer: str) -> Places | None:
    """Return the places that `format_places` wrote; None for any other text."""
    try:
        value = read_json(answer)
        return read_places(value) if isinstance(value, list) else None
    except ValueError:
        return None


def read_places(value: Any, form: Form = "xyxy") -> Places:
    """Return the places in a file's value: a place, a list of places, or either as JSON text.

    A place is an object with `box` or `bbox`, `point`, `mask` ({size, counts} by rows) or COCO's
    `segmentation` (polygons, or {size, counts} by columns), and `label`, `image`, `score`, `crowd`
    (or `iscrowd`) and `ignore`; or it is a plain list of four or two numbers. `form` states what
    the four numbers of a box mean. Raises ValueError for anything else.
    """
    if isinstance(value, str):
        value = read_json(value)
    if isinstance(value, Mapping) or _is_number_list(value):
        value = [value]
    if not isinstance(value, list):
        raise ValueError(f"places must be a list, got {value!r:.80}")
    return tuple(_read_place(inner, form) for inner in value)


def _read_place(value: Any, form: Form) -> Place:
    if _is_number_list(value):
        value = {"box" if len(value) == 4 else "point": value}
    if not isinstance(value, Mapping):
        raise ValueError(
            f"a place must be an object, or a list of four or two numbers, got {value!r:.80}"
        )
    image = value.get("image", 0)
    if not isinstance(image, int) or image < 0:
        raise ValueError(f"the `image` of a place must be a number from 0, got {image!r:.80}")
    numbers = value.get("box", value.get("bbox"))
    has_mask = bool(value.get("mask") or value.get("segmentation"))
    length = 4 if numbers is not None or has_mask else 2
    if numbers is None:
        numbers = value.get("point")
    if length == 4 and numbers is None and (mask := _read_mask(value)) is not None:
        numbers, form = list(map(float, mask_bounds(mask))), "xyxy"
    if not _is_number_list(numbers) or len(numbers) != length:
        raise ValueError(
            "a place needs a `box` of four finite numbers, a `point` of two, or a `mask`, got"
            f" {dict(value)!r:.120}"
        )
    numbers = [float(number) for number in numbers]
    if len(numbers) == 4 and form == "xywh":
        numbers = [*numbers[:2], numbers[0] + numbers[2], numbers[1] + numbers[3]]
    score = value.get("score")
    return Place(
        tuple(numbers),
        str(value.get("label") or ""),
        float(score) if isinstance(score, int | float) else None,
        image,
        None,
        bool(value.get("crowd", value.get("iscrowd"))),
        bool(value.get("ignore")),
        value if has_mask else None,
    )


def _is_number_list(value: Any) -> bool:
    """Return whether a value is a list of two or four finite numbers."""
    return (
        isinstance(value, list | tuple)
        and len(value) in (2, 4)
        and all(type(number) in (int, float) and abs(number) < 1e9 for number in value)
    )


def _read_mask(value: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """Return the mask of a place in a file, HxW, or None."""
    if value.get("mask"):
        mark = mark_from_dict(value["mask"])
        return mark.pixels if isinstance(mark, Mask) else None
    segmentation = value.get("segmentation")
    if isinstance(segmentation, Mapping) and isinstance(segmentation.get("counts"), list):
        height, width = segmentation["size"]
        turned = mark_from_dict({"size": [width, height], "counts": segmentation["counts"]})
        return turned.pixels.T if isinstance(turned, Mask) else None
    if isinstance(segmentation, Mapping):
        return _decode_runs(segmentation)
    if isinstance(segmentation, list) and segmentation:
        return fill_polygons(segmentation, value.get("size"))
    return None


def _decode_runs(segmentation: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Decode COCO's compressed runs. Raises ValueError."""
    counts = segmentation["counts"]
    counts = counts.encode() if isinstance(counts, str) else counts
    return np.asarray(
        import_library().mask.decode({"size": segmentation["size"], "counts": counts}), bool
    )


def fill_polygons(polygons: Iterable[Any], size: Any = None) -> NDArray[np.bool_]:
    """Fill COCO polygons [x, y, x, y ...], in edge coordinates, and return a mask HxW, as large as
    `size` (height, width) or else as the polygons need."""
    corners = [np.asarray(polygon, np.float64).reshape(-1, 2) for polygon in polygons]
    height, width = size or np.ceil(np.concatenate(corners).max(0)).astype(int)[::-1] + 1
    filled = np.zeros((height, width), np.uint8)
    for polygon in corners:
        cv2.fillPoly(filled, [np.rint((polygon - 0.5) * 16).astype(np.int32)], (1,), shift=4)
    return filled.astype(bool)


def to_marks(places: Iterable[Place]) -> Iterator[Mark]:
    """Yield places as marks; a box without an area becomes a point at its first corner."""
    for place in places:
        if place.has_area:
            x0, y0, x1, y1 = place.numbers
            yield mark_from_dict(
                {"label": place.label, "x0": x0, "y0": y0, "x1": x1, "y1": y1, "image": place.image}
            )
        else:
            x, y = place.numbers[:2]
            yield Point(place.label, x, y, place.image)
