"""Points in replies, parsed and scored as by the authors of pointing sets: by the share of points
in a mask, or by whether all of them are in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.verdict import Score, Verdict
from looktwice.extras.toolkits.scorer import BenchmarkScorer
from looktwice.pipelines.json_input import read_json

MaskPixels = NDArray[np.bool_]
Spot = tuple[float, float]
Area = tuple[int, int, int, int]
Size = tuple[int, int]
"""(width, height)."""
TUPLE_PATTERN = re.compile(r"\(([-+]?\d+\.?\d*(?:,\s*[-+]?\d+\.?\d*)*?)\)")
ATTRIBUTES_PATTERN = re.compile(r'x\d+="(-?\d+\.?\d*)"\s+y\d+="(-?\d+\.?\d*)"')
FENCED_BLOCK_PATTERN = re.compile(r"```(?:\w+)?\n(.*?)```", re.S)
PAIR_PATTERN = re.compile(r"[\[(]\s*([-+]?\d+\.?\d*)\s*,\s*([-+]?\d+\.?\d*)\s*[\])]")
PLAIN_PAIR_PATTERN = re.compile(r"\(([-+]?\d*\.?\d+)\s*,\s*([-+]?\d*\.?\d+)\)")
MAX_DIGITS = 15  # digits; a longer number is a loop of the model
COUNTING_CATEGORY = "counting"


class UnreadablePoints(ValueError):
    """Raised for a reply at which the authors' parser fails."""


def read_tuples(reply: str, size: Size, in_pixels: bool = False) -> Iterator[Spot | Area]:
    """Yield the points and boxes that a reply writes in round brackets, in pixels (RoboRefer,
    d97a995).

    Without `in_pixels`, fractions and all boxes are shares of the size, and points of whole numbers
    are pixels. A box counts as all its pixels. Raises UnreadablePoints for a box whose corners are
    swapped, and, with `in_pixels`, for fractions.
    """
    for group in TUPLE_PATTERN.findall(reply):
        texts = group.split(",")
        numbers = [float(text) if "." in text else int(text) for text in map(_check_length, texts)]
        if len(numbers) == 2:
            whole = all(isinstance(number, int) for number in numbers)
            if in_pixels and not whole:
                raise UnreadablePoints(f"({group}) is not whole pixels")
            shares = not (in_pixels or whole)
            yield _scale(numbers, size) if shares else (numbers[0], numbers[1])
        elif len(numbers) == 4:
            if not in_pixels:
                numbers = [*_scale(numbers[:2], size), *_scale(numbers[2:], size)]
            x0, y0, x1, y1 = map(int, numbers)
            if x1 < x0 or y1 < y0:
                raise UnreadablePoints(f"({group}) is a box with swapped corners")
            yield x0, y0, x1, y1


def read_attributes(reply: str, size: Size) -> Iterator[Spot]:
    """Yield points written x1="50" y1="50", in hundredths of the size (Molmo; RoboRefer,
    d97a995)."""
    for pair in ATTRIBUTES_PATTERN.findall(reply):
        yield _scale([float(_check_length(text)) / 100 for text in pair], size)


def read_gemini(reply: str, size: Size) -> Iterator[Spot]:
    """Yield the points {"point": [y, x]} of a JSON list in a code fence, in thousandths of the size
    (RoboRefer, d97a995); yield none without a fence."""
    fenced = FENCED_BLOCK_PATTERN.search(reply)
    try:
        listed = read_json(fenced[1].strip()) if fenced else []
    except ValueError:
        return
    for item in listed if isinstance(listed, list) else ():
        pair = item.get("point") if isinstance(item, Mapping) else None
        if isinstance(pair, list) and len(pair) == 2:
            y, x = (float(number) / 1000 for number in pair)
            yield _scale([x, y], size)


def read_thousandths(reply: str, size: Size) -> Iterator[Spot]:
    """Yield the pairs in square or round brackets: whole numbers are thousandths of the size,
    fractions are shares of it (Qwen3-VL's JSON in lmms-eval, 75571cf)."""
    for texts in PAIR_PATTERN.findall(reply):
        most = 1.0 if any("." in text for text in texts) else 1000.0
        yield _scale([float(_check_length(text)) / most for text in texts], size)


def read_by_size(reply: str, size: Size) -> Iterator[Spot]:
    """Yield the pairs in round brackets: shares of the size if both numbers are at most 1,
    thousandths if both are at most 1000, else pixels (Point-Bench in lmms-eval, 75571cf)."""
    for texts in PLAIN_PAIR_PATTERN.findall(reply):
        x, y = (float(_check_length(text)) for text in texts)
        width, height = size
        most = next((most for most in (1.0, 1000.0) if 0 <= x <= most and 0 <= y <= most), None)
        if most is not None:
            x, y = x / most * width, y / most * height
        yield round(x), round(y)


def read_point_objects(reply: str, size: Size) -> Iterator[Spot]:
    """Yield the points [{"point": [x, y]}, ...] between the first and last square bracket, in
    pixels (Point-Bench, dcd82f2).

    Raises UnreadablePoints for other JSON, which the authors count as a failure.
    """
    first, last = reply.find("["), reply.rfind("]")
    if first < 0 or last < 0:
        return
    try:
        for item in read_json(reply[first : last + 1]):
            x, y = item["point"]
            yield int(x), int(y)
    except (ValueError, TypeError, KeyError) as exc:
        raise UnreadablePoints(f"not a list of points: {exc}") from exc


POINT_READERS: Mapping[str, Callable[[str, Size], Iterator[Spot | Area]]] = {
    "tuples": read_tuples,
    "pixels": lambda reply, size: read_tuples(reply, size, in_pixels=True),
    "molmo": read_attributes,
    "gemini": read_gemini,
    "thousandths": read_thousandths,
    "guessed": read_by_size,
    "point_objects": read_point_objects,
}
"""The functions that parse the points of a reply, by name of the form."""


def compute_share_in_mask(spots: Sequence[Spot | Area], mask: MaskPixels) -> float:
    """Return the share of points that lie in a mask (rows by columns); every pixel of a box counts
    as a point.

    Points outside the picture count as outside the mask. Return 0 if there are no points.
    """
    hits, total = 0, 0
    height, width = mask.shape
    for spot in spots:
        if len(spot) == 4:
            x0, y0, x1, y1 = spot
            total += (x1 - x0) * (y1 - y0)
            hits += int(mask[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)].sum())
        else:
            x, y = int(spot[0]), int(spot[1])
            total += 1
            hits += bool(0 <= x < width and 0 <= y < height and mask[y, x])
    return hits / total if total else 0.0


@dataclass(frozen=True)
class PointScorer(BenchmarkScorer):
    """A scorer of points against the mask in the item's truth, for `read: {use:
    eval.readers.WholeReply}`.

    `form` is how the model writes points: "tuples" (round brackets; fractions are shares), "pixels"
    (the same in pixels), "molmo" (x1="50"), "gemini" (fenced JSON, y first, thousandths),
    "thousandths" (JSON or brackets, whole numbers in thousandths), "guessed" (by their size), or
    "point_objects" ([{"point": [x, y]}] in pixels). `count` "share" gives the share of the points
    in the mask (RefSpatial-Bench); "all" gives 1 if the first point is in the mask or, in the
    category counting, if all are and their number is right (Point-Bench). A reply at which the
    authors' parser fails is unreadable. The other settings are those of
    `eval.scoring.BenchmarkScorer`. Raises ValueError.
    """

    form: str = "tuples"
    count: Literal["share", "all"] = "share"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in POINT_READERS:
            raise ValueError(f"`form` must be one of {', '.join(POINT_READERS)}, got {self.form!r}")

    def compare(self, answer: str, row: SampleRow) -> Score:
        """Compare the points of a reply with the mask in the truth of its row."""
        mask = read_mask(row.truth["places"][0]["mask"])
        try:
            spots = [*POINT_READERS[self.form](answer, (mask.shape[1], mask.shape[0]))]
        except UnreadablePoints:
            return Score(Verdict.UNREADABLE)
        value = compute_share_in_mask(spots, mask)
        if self.count == "all":
            counting = row.meta.get("category") == COUNTING_CATEGORY
            asked = int(row.truth.get("count") or 1) if counting else 1
            spots = spots if counting else spots[:1]
            value = float(len(spots) == asked and compute_share_in_mask(spots, mask) == 1)
        return Score(Verdict.RIGHT if value == 1 else Verdict.WRONG, value)


def read_mask(plain: Mapping[str, Any]) -> MaskPixels:
    """Decode the mask {size: [rows, columns], counts: run lengths along rows, False first}."""
    counts = np.asarray(plain["counts"])
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return flat.reshape(plain["size"])


def _check_length(text: str) -> str:
    """Return the text of a number. Raises UnreadablePoints if the text is too long."""
    if len(text.strip()) > MAX_DIGITS + 5:
        raise UnreadablePoints(f"a number has {len(text)} characters")
    return text.strip()


def _scale(shares: Sequence[float], size: Size) -> Spot:
    return int(shares[0] * size[0]), int(shares[1] * size[1])
