"""Zooms: crops around marks, detected objects or cells of a grid, alone or beside the whole
image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean
from types import MappingProxyType
from typing import Literal

import numpy as np

from looktwice.pipelines.marks import Box, Mark
from looktwice.pipelines.model import Model
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.sample import Sample, check_marks
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.evidence import Missing, handle_missing, shown_sources
from looktwice.prompting.grids.grids import DotGrid, RuledGrid, read_coordinates, source_box
from looktwice.prompting.views.crop import Crop
from looktwice.specialists.protocols import Detector, NoEvidence
from looktwice.specialists.sharing import look_once


def zoom_views(
    state: State,
    sought: str,
    regions: Mapping[int, Sequence[Mark]],
    crop: Crop,
    missing: Missing,
    wanted: Sequence[int],
    reasons: Mapping[int, str] = MappingProxyType({}),
) -> State:
    """Zoom every view of a wanted source image on the `regions` of its images, of which `sought`
    says what they are; `missing` decides about views that show none, and `reasons` say why an image
    has none.

    Measured is `crop_share`, the mean share of a view that a crop shows.
    """
    views, notes, lacking, shares = list[View](), list[str](), list[str](), list[float]()
    for number, view in enumerate(state.views, 1):
        sources = sorted({part.source for part in view.parts} & set(wanted))
        places: list[Mark] = []
        for region in chain.from_iterable(regions.get(source, ()) for source in sources):
            places += view.to_view(region)
        if places:
            shown, more = crop.show_in(state, view, places)
            views += shown
            notes += [f"view {number}: {note}" for note in more]
            for left, top, right, bottom in crop.areas(view, places)[0]:
                shares.append((right - left) * (bottom - top) / (view.size[0] * view.size[1]))
        else:
            views.append(view)
            why = "; ".join(reasons[source] for source in sources if source in reasons)
            lacking += [f"view {number}: {why or f'no {sought} is seen'}"] if sources else []
    state = state.measured("crop_share", fmean(shares)) if shares else state
    if lacking and missing != "keep":
        return handle_missing(state, missing, lacking)
    return handle_missing(state.replace(views=tuple(views)).with_notes(*notes), "keep", lacking)


@dataclass(frozen=True)
class ZoomOnMarks(WithoutModel):
    """Zooms on the sample's marks, or on those in `labels`; `crop` says how.

    It applies to every view of one of `images`, which are counted from 0; None means all images
    that have such a mark. Other views stay as they are. `missing` applies if no image has such a
    mark or a view does not show it: "keep" the view with a note in the record, "fail" the sample,
    or "abstain". Raises ValueError for a mark outside its image.
    """

    labels: tuple[str, ...] = ()
    images: tuple[int, ...] | None = None
    missing: Missing = "fail"
    crop: Crop = field(default_factory=Crop)

    def __call__(self, state: State, model: Model) -> State:
        """The state with the zoomed views."""
        check_marks(state.sample)
        regions: dict[int, list[Mark]] = {}
        for mark in state.sample.marks:
            if not self.labels or mark.label in self.labels:
                regions.setdefault(mark.image, []).append(mark)
        sought = f"mark {' or '.join(map(repr, self.labels))}" if self.labels else "mark"
        sources = shown_sources(state, self.images)
        if self.images is None:
            sources = [number for number in sources if number in regions] or sources
        return zoom_views(state, sought, regions, self.crop, self.missing, sources)


@dataclass(frozen=True)
class ZoomOnDetections(WithoutModel):
    """Zooms on what a detector finds in the source images, the highest score first; `crop` says
    how.

    The words to look for come from one place: `words`; the sample's field `words_field`, a text or
    a list of texts; or the question, in which every match of the regular expression `words_pattern`
    gives its groups, or the whole match if it has none (`'the (\\w+) in'`; `'.+'` is the whole
    question). Without any of them the detector gets no words, which is right for detectors of one
    kind of object, such as faces.

    Boxes with a score below `min_score` (in the detector's own unit) or without an area are
    dropped. `order` "size" puts the largest first, which matters if `crop.most` is small. `images`
    are counted from 0; None means all. If nothing is found, `missing` says whether to "keep" the
    view with a note in the record, "fail" the sample, or "abstain". Raises ValueError if the sample
    has no field of that name.
    """

    detector: Detector
    words: tuple[str, ...] = ()
    words_field: str = ""
    words_pattern: str = ""
    min_score: float | None = None
    order: Literal["score", "size"] = "score"
    images: tuple[int, ...] | None = None
    missing: Missing = "keep"
    crop: Crop = field(default_factory=Crop)

    def __post_init__(self) -> None:
        given = [name for name in ("words", "words_field", "words_pattern") if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"words come from one place, found {' and '.join(given)}")
        if any(not word.strip() for word in self.words):
            raise ValueError(f"words holds an empty text: {list(self.words)}")
        try:
            re.compile(self.words_pattern)
        except re.error as exc:
            raise ValueError(
                f"words_pattern {self.words_pattern!r} is no regular expression: {exc}"
            ) from exc

    def __call__(self, state: State, model: Model) -> State:
        """The state with the zoomed views."""
        words, sources = self._words(state.sample), shown_sources(state, self.images)
        regions: dict[int, list[Mark]] = {}
        reasons: dict[int, str] = {}
        for number in sources:
            try:
                regions[number] = self._boxes(state.sample, number, words)
            except NoEvidence as exc:
                reasons[number] = str(exc)
        sought = f"box{_for_words(words)}"
        return zoom_views(state, sought, regions, self.crop, self.missing, sources, reasons)

    def _words(self, sample: Sample) -> tuple[str, ...]:
        if name := self.words_field:
            value = sample.meta.get(name)
            words = [value] if isinstance(value, str) else value
            if not isinstance(words, list | tuple) or not all(isinstance(w, str) for w in words):
                fields = ", ".join(sorted(sample.meta)) or "none"
                raise ValueError(
                    f"sample {sample.id}: its field {name!r} is {value!r}, not a text or a list of"
                    f" texts (fields: {fields})"
                )
            return tuple(word.strip() for word in words if word.strip())
        if self.words_pattern:
            matched: list[str] = []
            for match in re.finditer(self.words_pattern, sample.question):
                matched += [word.strip() for word in match.groups() or (match[0],) if word]
            return tuple(dict.fromkeys(filter(None, matched)))
        return self.words

    def _boxes(self, sample: Sample, number: int, words: Sequence[str]) -> list[Mark]:
        """The boxes in one source image, the most important first. Raises NoEvidence."""
        if not words and (self.words_field or self.words_pattern):
            raise NoEvidence("the sample has no words to look for")
        boxes = look_once(self.detector, sample.images[number].pixels, words or None)
        x0, y0, x1, y1 = boxes.xyxy.T
        area = (x1 - x0) * (y1 - y0)
        order = np.argsort(-(area if self.order == "size" else boxes.scores), kind="stable")
        sure = boxes.scores >= (-np.inf if self.min_score is None else self.min_score)
        kept = order[(sure & (area > 0))[order]]
        if not len(kept):
            raise NoEvidence(f"no box{_for_words(words)} in image {number}")
        boxes, kept_boxes = boxes[kept], list[Mark]()
        for label, (left, top, right, bottom) in zip(
            boxes.labels, boxes.xyxy.tolist(), strict=True
        ):
            kept_boxes.append(Box(str(label), left, top, right, bottom, number))
        return kept_boxes


def _for_words(words: Sequence[str]) -> str:
    return f" for {', '.join(words)}" if words else ""


@dataclass(frozen=True)
class ZoomOnCells(WithoutModel):
    """Zooms on cells of the grid that an earlier stage drew on the views; `crop` says how, by
    default without padding.

    `grid` repeats the settings of that stage, as a reference `${stages.SLOT}`. `cells` are names as
    the grid writes them: "B2", "(2,3)", or with the number of the image "(1,2,3)". Without `cells`,
    those that the model's last reply names are used. The views must be those on which the grid was
    drawn. For a RuledGrid the crop is the cell, for a DotGrid it reaches `around` spacings to each
    side of the dot (2 in Scaffold).

    `images` are the numbers of the sample's images whose views are zoomed, from 0; null means all.
    `missing` applies to a view of which no cell is named.
    """

    grid: DotGrid | RuledGrid
    cells: tuple[str, ...] = ()
    around: float = 2
    images: tuple[int, ...] | None = None
    missing: Missing = "keep"
    crop: Crop = field(default_factory=lambda: Crop(padding=0, min_px=0))

    def __post_init__(self) -> None:
        if not isinstance(self.grid, DotGrid | RuledGrid):
            raise ValueError(
                "grid is a DotGrid or a RuledGrid of prompting.grids, found"
                f" {type(self.grid).__name__}"
            )
        if isinstance(self.grid, RuledGrid) and self.grid.names == "none":
            raise ValueError("grid has names: none, so no cell can be named; give it other names")
        check_ranges(self, "around > 0")
        wrong = [cell for cell in self.cells if not self._knows(cell)]
        if wrong:
            raise ValueError(
                f"the grid has no cell {' and no cell '.join(map(repr, wrong))}: it has"
                f" {self.grid.rows} rows and {self.grid.columns} columns; name its cells as it"
                " writes them"
            )

    def __call__(self, state: State, model: Model) -> State:
        """The state with the zoomed views."""
        sources = shown_sources(state, self.images)
        regions: dict[int, list[Mark]] = {number: [] for number in sources}
        for box in self._boxes(state.views, " ".join(self.cells) or state.reply):
            regions.setdefault(box.image, []).append(box)
        sought = "cell of those named" if self.cells else "cell that the reply names"
        return zoom_views(state, sought, regions, self.crop, self.missing, sources)

    def _knows(self, name: str) -> bool:
        if isinstance(self.grid, RuledGrid):
            every = np.ndindex(self.grid.rows, self.grid.columns)
            return name in {self.grid.name(*place) for place in every}
        named = read_coordinates(name)
        return len(named) == 1 and self.grid.has(named[0])

    def _boxes(self, views: Sequence[View], said: str) -> Iterator[Box]:
        """The named cells as boxes of the source images."""
        if isinstance(self.grid, RuledGrid):
            for number in range(len(self.grid.gridded_views(views))):
                yield from self.grid.places(views, said, number + 1)
            return
        for view, (*_, row, column) in self.grid.named(views, said):
            box = source_box(view, self.grid.around(view.size, row, column, self.around))
            if box is not None:
                yield box
