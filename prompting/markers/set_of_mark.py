"""Set-of-mark (Yang et al. 2023): the regions of a view get numbers that a question can name, and
the number in a reply is mapped back to its region."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from looktwice.pipelines.geometry import Size, intersect_boxes
from looktwice.pipelines.marks import Box, Mask, Point, mask_bounds
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.sample import Sample, prefix_errors
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import (
    check_color,
    choose_golden_ratio_color,
    choose_readable_color,
    parse_rgb,
)
from looktwice.prompting.drawing.free_areas import place_numbers
from looktwice.prompting.drawing.lines import paint_line
from looktwice.prompting.drawing.regions import Region, rasterize
from looktwice.prompting.drawing.text import MIN_EM, render_plate
from looktwice.prompting.evidence import (
    MissingAction,
    collect_results,
    handle_missing,
    replace_views,
)
from looktwice.prompting.grids.grids import make_column_letters
from looktwice.prompting.markers.base import find_clip_rect
from looktwice.specialists.protocols import Detector, Segmenter
from looktwice.specialists.results import Boxes, Masks
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once

Overlap = Literal["smaller", "larger", "score", "keep"]
Order = Literal["area", "reading", "score"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A region of a source picture, in pixels of that picture, and the confidence of the specialist
    that found it."""

    mark: Box | Mask
    score: float = 1.0

    @cached_property
    def area(self) -> float:
        """The area in pixels of the source picture."""
        if isinstance(self.mark, Mask):
            return float(np.count_nonzero(self.mark.pixels))
        return (self.mark.x1 - self.mark.x0) * (self.mark.y1 - self.mark.y0)

    @property
    def rank(self) -> tuple[float, float]:
        """A sort key: higher scores first, then larger areas."""
        return -self.score, -self.area


OVERLAP_SORT_KEYS: dict[str, Callable[[Candidate], float]] = {
    "smaller": lambda candidate: candidate.area,
    "larger": lambda candidate: -candidate.area,
    "score": lambda candidate: -candidate.score,
}
"""Sort keys for overlapping masks; the candidate that comes first keeps the pixels that several
share."""


def find_mask_candidates(masks: Masks, size: Size, image: int) -> Iterator[Candidate]:
    """Yield the masks that a segmenter found in a picture of this (width, height); empty masks are
    dropped.

    Raises ValueError for masks of another size.
    """
    if len(masks) and masks.masks.shape[:0:-1] != size:
        given = masks.masks.shape[:0:-1]
        raise ValueError(
            f"the masks of image {image} are {given[0]} x {given[1]} pixels, the image {size[0]} x"
            f" {size[1]}; a segmenter must return them at the size of the image"
        )
    for pixels, score, label in zip(masks.masks, masks.scores, masks.labels, strict=True):
        if pixels.any():
            yield Candidate(Mask(str(label), pixels, image), float(score))


def find_box_candidates(boxes: Boxes, size: Size, image: int) -> Iterator[Candidate]:
    """Yield the boxes that a detector found in a picture of this (width, height), cut at its edge;
    empty boxes are dropped."""
    for xyxy, score, label in zip(boxes.xyxy, boxes.scores, boxes.labels, strict=True):
        x0, y0, x1, y1 = (float(edge) for edge in xyxy)
        if seen := intersect_boxes((x0, y0, x1, y1), (0.0, 0.0, float(size[0]), float(size[1]))):
            yield Candidate(Box(str(label), *seen, image), float(score))


def find_mark_candidates(sample: Sample, image: int) -> Iterator[Candidate]:
    """Yield the sample's own boxes and masks on one of its pictures. Raises ValueError for a mask
    of another size."""
    size = sample.images[image].size
    for mark in sample.list_marks_on(image):
        if isinstance(mark, Mask):
            yield from find_mask_candidates(
                Masks(mark.pixels[None], np.ones(1), np.array([mark.label])), size, image
            )
        elif isinstance(mark, Box):
            yield from find_box_candidates(
                Boxes(np.array([mark.xyxy]), np.ones(1), np.array([mark.label])), size, image
            )


def resolve_overlaps(candidates: Sequence[Candidate], overlap: Overlap) -> list[Candidate]:
    """Return the candidates with each shared pixel assigned to a single mask: the smallest, the
    largest or the one with the highest score.

    Masks without a remaining pixel are dropped. Boxes stay whole; "keep" leaves all masks
    unchanged.
    """
    if overlap == "keep":
        return list(candidates)
    order = OVERLAP_SORT_KEYS[overlap]
    claimed: Any = False
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=order):
        mark = candidate.mark
        if isinstance(mark, Box):
            kept.append(candidate)
            continue
        own = mark.pixels & np.logical_not(claimed)
        claimed = claimed | own
        if own.any():
            kept.append(replace(candidate, mark=replace(mark, pixels=own)))
    return kept


def sort_candidates(candidates: Sequence[Candidate], order: Order, height: int) -> list[Candidate]:
    """Return the candidates in the order of their numbers; for "reading", a row is a tenth of the
    picture's `height`."""
    if order == "area":
        return sorted(candidates, key=OVERLAP_SORT_KEYS["larger"])
    if order == "score":
        return sorted(candidates, key=lambda candidate: candidate.rank)

    def compute_position(candidate: Candidate) -> tuple[int, float]:
        x, y = candidate.mark.center
        return int(10 * (y + 0.5) / height), x

    return sorted(candidates, key=compute_position)


@dataclass(frozen=True)
class SetOfMark(WithoutModel):
    """Numbers the regions that a segmenter or detector finds, or the sample's own boxes and masks,
    and draws them.

    Regions come from `segmenter`, from `detector` (which looks for `words`), or, without either,
    from the sample's boxes and masks. They are found once in each source picture, in its own
    pixels, and drawn in every view that shows them. `min_area` and `max_area` are shares of the
    picture; if there are more than `most` regions, those with the highest score are kept, then the
    largest. `overlap` decides which mask keeps pixels that several share: the smaller, the larger,
    the one with the higher score, or all of them ("keep"); boxes stay whole.

    `order` numbers by area (largest first, as in the paper), by position ("reading": rows of a
    tenth of the height from the top, then from the left) or by score, across all images; `text`
    "letters" uses A, B ... instead of 1, 2 ... The numbered regions are added to the sample's marks
    under these labels: `ChosenMark` finds the region that a reply names, other stages can zoom in
    on it, and the record stores all of them. `keep` "boxes" stores only the boxes around them
    (forty masks take about 60 kB in a record, their boxes 4 kB).

    Each region gets a tint with the opacity `alpha`, a contour of `contour` pixels inwards, and its
    number on a plate. The number is placed at the region's largest inscribed circle if it fits
    there, or else next to the region, with a line. `color` is "each" for one colour per region, or
    a CSS name or "#rrggbb". `plate_color` may be "region" for the region's own colour. The plate is
    `padding` pixels wider than the number, which is black or white, whichever reads better.
    `font_size` is in pixels of the view or, with `reference_height`, of a view of that height.
    `images` are the numbers of the source pictures to search, from 0; null means all that are
    shown. `say` is a sentence for the prompt.

    Raises a ValueError that names the sample: for a number that has no room, for a label that is
    already used, and if nothing is found and `missing` is "fail".
    """

    segmenter: Segmenter | None = None
    detector: Detector | None = None
    words: tuple[str, ...] = ()
    min_area: float = 0.001
    max_area: float = 1.0
    most: int = 40
    overlap: Overlap = "smaller"
    order: Order = "area"
    text: Literal["numbers", "letters"] = "numbers"
    keep: Literal["masks", "boxes"] = "masks"
    alpha: float = 0.2
    contour: float = 2
    color: str = "each"
    plate_color: str = "black"
    font_size: float = 16
    padding: int = 2
    reference_height: int | None = None
    images: tuple[int, ...] | None = None
    missing: MissingAction = "fail"
    say: str = ""

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_color(self.color, "each", name="color")
        check_color(self.plate_color, "region", name="plate_color")
        if self.segmenter is not None and self.detector is not None:
            raise ValueError(
                "give a segmenter or a detector, not both; without either, the sample's marks"
                " are numbered"
            )
        if self.words and self.detector is None:
            raise ValueError(
                "words are for a detector; name one under `detector:`, or leave words out"
            )
        check_ranges(
            self,
            "max_area, alpha <= 1",
            "min_area, alpha, contour, padding >= 0",
            "min_area < max_area",
            "font_size > 0",
            "most, reference_height >= 1",
        )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with numbered regions on its views and among the sample's marks."""
        regions_of, lacking = collect_results(
            state, self.images, lambda number: self.find_regions(state.sample, number)
        )
        if lacking and self.missing != "keep":
            return handle_missing(state, self.missing, lacking.values())
        marks: list[Box | Mask] = []
        for regions in regions_of.values():
            for region in regions:
                number = len(marks)
                name = str(number + 1) if self.text == "numbers" else make_column_letters(number)
                marks.append(replace(region, label=name))
        taken = {mark.label for mark in state.sample.marks}.intersection(m.label for m in marks)
        if taken:
            raise ValueError(
                f"sample {state.sample.id}: it has marks with the labels {', '.join(sorted(taken))}"
                f" already; set text: {'letters' if self.text == 'numbers' else 'numbers'}"
            )
        with prefix_errors(state.sample):
            views = [self.draw(view, marks) for view in state.views]
        seen = {label for view in state.views for label, _ in self._find_visible(view, marks)}
        if marks and not seen:
            return handle_missing(
                state, self.missing, [f"no view shows any of {len(marks)} regions"]
            )
        marks = [mark for mark in marks if mark.label in seen]
        for number, mark in enumerate(marks):
            if isinstance(mark, Mask) and self.keep == "boxes":
                marks[number] = Box(mark.label, *mask_bounds(mark.pixels), mark.image)
        sample = replace(state.sample, marks=(*state.sample.marks, *marks))
        return replace_views(state, views, self.say, lacking.values()).replace(sample=sample)

    def find_regions(self, sample: Sample, number: int) -> list[Box | Mask]:
        """Return the regions of one source picture, in pixels of that picture and in the order of
        their numbers. Raises NoEvidence."""
        width, height = sample.images[number].size
        low, high = self.min_area * width * height, self.max_area * width * height
        fitting = (c for c in self._find_candidates(sample, number) if low <= c.area <= high)
        best = sorted(fitting, key=lambda candidate: candidate.rank)[: self.most]
        clear = [c for c in resolve_overlaps(best, self.overlap) if c.area >= low]
        if not clear:
            raise NoEvidence(
                f"no region of {low:.0f} to {high:.0f} pixels was found in image {number}"
            )
        return [candidate.mark for candidate in sort_candidates(clear, self.order, height)]

    def draw(self, view: View, marks: Sequence[Box | Mask]) -> View:
        """Return one view with the numbered regions that it shows. Raises ValueError if a number
        has no room."""
        regions = self._find_visible(view, marks)
        if not regions:
            return view
        colors = {
            mark.label: choose_golden_ratio_color(number)
            if self.color == "each"
            else parse_rgb(self.color)
            for number, mark in enumerate(marks)
        }
        pixels = np.array(view.pixels)
        largest_first = sorted(regions, key=lambda entry: -entry[1].area)
        for label, region in largest_first:
            region.paint_tint(pixels, colors[label], self.alpha)
        for label, region in largest_first:
            region.paint_contour(pixels, colors[label], self.contour)
        scale = view.size[1] / self.reference_height if self.reference_height else 1.0
        font_size, plates = max(MIN_EM, self.font_size * scale), dict[str, Pixels]()
        for label, _ in regions:
            ground = colors[label] if self.plate_color == "region" else parse_rgb(self.plate_color)
            plates[label] = render_plate(
                label, font_size, choose_readable_color(ground), ground, self.padding
            )
        sizes = {label: (image.shape[1], image.shape[0]) for label, image in plates.items()}
        frames = [find_clip_rect(part.clip, view.size) for part in view.parts]
        placed = place_numbers(regions, sizes, frames)
        for spot in placed:
            if not spot.is_inside:  # draw a line to the middle of the region
                left, top, right, bottom = spot.area
                start = (left + right - 1) // 2, (top + bottom - 1) // 2
                paint_line(pixels, start, spot.anchor, colors[spot.label], 1)
        for spot in placed:
            left, top, right, bottom = spot.area
            pixels[top:bottom, left:right] = plates[spot.label]
        return view.with_pixels(pixels)

    def _find_visible(self, view: View, marks: Sequence[Box | Mask]) -> list[tuple[str, Region]]:
        """Return the regions that a view shows, with their numbers."""
        regions: list[tuple[str, Region]] = []
        for mark in marks:
            for place in view.to_view(mark):
                region = None if isinstance(place, Point) else rasterize(place, view.size)
                regions += [(mark.label, region)] if region else []
        return regions

    def _find_candidates(self, sample: Sample, number: int) -> Iterator[Candidate]:
        picture = sample.images[number]
        if self.segmenter is not None:
            return find_mask_candidates(
                look_once(self.segmenter, picture.pixels), picture.size, number
            )
        if self.detector is not None:
            boxes = look_once(self.detector, picture.pixels, self.words or None)
            return find_box_candidates(boxes, picture.size, number)
        return find_mark_candidates(sample, number)
