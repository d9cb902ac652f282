"""Regions from maps and segments, regions of one size for every source, and placebos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np

from looktwice.pipelines.geometry import Size, measure_overlap
from looktwice.pipelines.marks import Box, Mark, Mask, bounding_box
from looktwice.pipelines.model import Model
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.where.places import PerImageSource, Places, Where, WithSource
from looktwice.specialists.protocols import DepthEstimator, ScalarMap, Segmenter
from looktwice.specialists.results import DepthMap, Floats, argsort_descending
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once


def compute_window_sums(values: Floats, high: int, wide: int) -> Floats:
    """Return the sum of each window of the given height and width, in units of the largest value,
    indexed by the first row and column of the window. Sums are rounded, so that those that differ
    only in their last digits are equal."""
    sums = cv2.integral(values / (np.abs(values).max() or 1.0))
    rows = sums[high:] - sums[: len(sums) - high]
    columns = rows.shape[1] - wide
    return np.asarray(rows[:, wide:] - rows[:, :columns], np.float64).round(9)


@dataclass(frozen=True)
class Segmented(PerImageSource):
    """The regions of a segmenter, the largest first, or the most certain first with `order`
    "score".

    `images` are counted from 0; None means all.
    """

    segmenter: Segmenter
    order: Literal["size", "score"] = "size"
    region_phrase = "segment"

    def find_regions(self, state: State, model: Model, number: int) -> list[Mark]:
        """Return the segments of one image."""
        masks = look_once(self.segmenter, state.sample.images[number].pixels)
        areas = masks.masks.sum((1, 2))
        order = argsort_descending(areas if self.order == "size" else masks.scores)
        return [
            Mask(str(masks.labels[row]), masks.masks[row], number) for row in order if areas[row]
        ]


@dataclass(frozen=True)
class Windows(Ranged, PerImageSource):
    """The windows over which a map has the largest sum; a window has `share` of its image's width
    and height.

    `scalar` is any map with one number per pixel: saliency, attention, edges, or the nearness of a
    depth map. The second of `most` windows is the best in the rest of the map, and so on. On a tie
    the first wins, row by row; unknown values count as the lowest known one. `images` are counted
    from 0; None means all.
    """

    scalar: ScalarMap | DepthEstimator
    share: float = 0.3
    most: int = 1

    region_phrase = "window"
    ranges = ("share > 0", "share <= 1", "most >= 1")

    def find_regions(self, state: State, model: Model, number: int) -> list[Mark]:
        """Return the windows of one image."""
        values = get_known_values(self.scalar, state.sample, number)
        high, wide = (max(1, round(self.share * side)) for side in values.shape)
        windows: list[Mark] = []
        for _ in range(self.most):
            totals = compute_window_sums(values, high, wide)
            top, left = divmod(int(totals.argmax()), totals.shape[1])
            if windows and totals[top, left] <= 0:
                break
            windows.append(Box("", left, top, left + wide, top + high, number))
            values[top : top + high, left : left + wide] = 0
        return windows


@dataclass(frozen=True)
class BestCells(Ranged, PerImageSource):
    """The cells of a grid over which a map has the highest mean, the best first. This is how RAP
    retrieves crops of one size.

    Cells are squares of about `side` pixels, which fill the image. `scalar` is any map, as in
    `Windows`. `most` limits how many are returned; None returns all. `images` are counted from 0;
    None means all.
    """

    scalar: ScalarMap | DepthEstimator
    side: int = 224
    most: int | None = None

    region_phrase = "cell"
    ranges = ("side, most >= 1",)

    def find_regions(self, state: State, model: Model, number: int) -> list[Mark]:
        """Return the cells of one image."""
        values = get_known_values(self.scalar, state.sample, number)
        cells = list_grid_cells((values.shape[1], values.shape[0]), self.side, number)
        cells.sort(key=lambda cell: -round(float(values[cell.rows, cell.columns].mean()), 9))
        return [cell.box for cell in cells[: self.most]]


class Cell(NamedTuple):
    """A cell of a grid over an image: its rows and columns of pixels, and its box."""

    rows: slice
    columns: slice
    box: Box


def list_grid_cells(size: Size, side: int, number: int) -> list[Cell]:
    """Return the cells, nearly squares of `side` pixels, that fill image `number`, row by row."""
    across, down = (
        np.linspace(0, length, max(1, round(length / side)) + 1).round().astype(int).tolist()
        for length in size
    )
    return [
        Cell(slice(top, bottom), slice(left, right), Box("", left, top, right, bottom, number))
        for top, bottom in pairwise(down)
        for left, right in pairwise(across)
    ]


def get_known_values(scalar: ScalarMap | DepthEstimator, sample: Sample, number: int) -> Floats:
    """Return a map of an image, (height, width), shifted to start at 0; unknown values count as the
    lowest known one. Raises NoEvidence if none is known."""
    look: Any = scalar
    given = look_once(look, sample.images[number].pixels)
    values = np.array(given.nearness if isinstance(given, DepthMap) else given, np.float64)
    if not np.isfinite(values).any():
        raise NoEvidence(f"the map of image {number} has no known value")
    return np.nan_to_num(values - np.nanmin(values), nan=0.0)


@dataclass(frozen=True)
class Sized(Ranged, WithSource, Where):
    """The regions of `where`, each replaced by a box with `share` of its image's width and height
    around its centre, so that the regions of all sources have one size and cost the same tokens.

    The box is shifted into the image.
    """

    where: Where
    share: float = 0.3

    ranges = ("share > 0", "share <= 1")

    def places(self, state: State, model: Model) -> Places:
        """Return the regions at one size."""
        return self.where.places(state, model).map_regions(
            lambda number, marks: [self._resize(state.sample, mark) for mark in marks]
        )

    def _resize(self, sample: Sample, mark: Mark) -> Box:
        size = sample.images[mark.image].size
        x0, y0, x1, y1 = bounding_box(mark)
        width, height = (min(max(1.0, self.share * side), side) for side in size)
        # around the middle of the mark, shifted into the image
        left = max(0.0, min((x0 + x1) / 2 - width / 2, size[0] - width))
        top = max(0.0, min((y0 + y1) / 2 - height / 2, size[1] - height))
        return Box(mark.label, left, top, left + width, top + height, mark.image)


@dataclass(frozen=True)
class Elsewhere(Ranged, WithSource, Where):
    """The placebo of any source: boxes of the same sizes at random places of the same images.

    `where` is the source. Each box is the one of `tries` random places that overlaps least with the
    true regions; `tries: 1` draws uniformly from all places where it fits, like any random crop.
    Places are the same in every run with the same seed, sample and draw; another `seed` gives
    others.
    """

    where: Where
    tries: int = 16
    seed: int = 0

    ranges = ("tries >= 1", "tries <= 64")

    def places(self, state: State, model: Model) -> Places:
        """Return the boxes at random places."""
        rng = state.rng(f"Elsewhere {self.seed}")

        def move_regions(number: int, marks: Sequence[Mark]) -> list[Mark]:
            size, boxes = state.sample.images[number].size, list[Mark]()
            true = list(map(bounding_box, marks))
            for mark, (x0, y0, x1, y1) in zip(marks, true, strict=True):
                side = np.minimum((max(1.0, x1 - x0), max(1.0, y1 - y0)), size)
                corners = np.floor(rng.uniform(0, size - side + 1, (self.tries, 2)))
                low = np.minimum(corners, size - side)
                edges = np.hstack([low, low + side]).tolist()
                drawn = [Box(mark.label, a, b, c, d, number) for a, b, c, d in edges]
                boxes.append(
                    min(drawn, key=lambda b: sum(measure_overlap(b.xyxy, t) for t in true))
                )
            return boxes

        return self.where.places(state, model).map_regions(move_regions)
