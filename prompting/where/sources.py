"""Sources of regions: marks, detections, grid cells, places that a reply names, and regions that
the task gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Literal

import numpy as np

from looktwice.pipelines.marks import Box, Mark, Point, mark_from_dict
from looktwice.pipelines.model import Model
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.pipelines.sample import Sample, check_marks
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.coordinates import Frame, ShownImage, ToolError
from looktwice.prompting.evidence import list_shown_sources
from looktwice.prompting.grids.grids import DotGrid, RuledGrid, find_source_box, read_coordinates
from looktwice.prompting.where.claims import LAST_IMAGE, Claim, read_claims
from looktwice.prompting.where.places import Places, Where
from looktwice.specialists.protocols import Detector
from looktwice.specialists.results import argsort_descending
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class OnMarks(Where):
    """The sample's marks, or those in `labels`.

    `images` are counted from 0; None means all images that have such a mark. Raises ValueError for
    a mark outside its image.
    """

    labels: tuple[str, ...] = ()
    images: tuple[int, ...] | None = None

    def places(self, state: State, model: Model) -> Places:
        """Return the marks by image."""
        check_marks(state.sample)
        regions: dict[int, list[Mark]] = {}
        for mark in state.sample.marks:
            if not self.labels or mark.label in self.labels:
                regions.setdefault(mark.image, []).append(mark)
        region_phrase = f"mark {' or '.join(map(repr, self.labels))}" if self.labels else "mark"
        sources = list_shown_sources(state, self.images)
        if self.images is None:
            sources = [number for number in sources if number in regions] or sources
        return Places(region_phrase, regions, sources)


def check_words(source: Any) -> None:
    """Raise ValueError if words come from several settings, contain an empty string, or use an
    invalid pattern."""
    given = [name for name in ("words", "words_field", "words_pattern") if getattr(source, name)]
    if len(given) > 1:
        raise ValueError(f"words must come from one setting, got {' and '.join(given)}")
    if any(not word.strip() for word in source.words):
        raise ValueError(f"words contains an empty string: {list(source.words)}")
    try:
        re.compile(source.words_pattern)
    except re.error as exc:
        raise ValueError(
            f"words_pattern {source.words_pattern!r} is not a valid regular expression: {exc}"
        ) from exc


def find_words(source: Any, sample: Sample) -> tuple[str, ...]:
    """Return the words to look for. Raises ValueError for a field that the sample lacks."""
    if name := source.words_field:
        value = sample.meta.get(name)
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(w, str) for w in words):
            fields = ", ".join(sorted(sample.meta)) or "none"
            raise ValueError(
                f"sample {sample.id}: its field {name!r} is {value!r}, not a text or a list of"
                f" texts (fields: {fields})"
            )
        return tuple(word.strip() for word in words if word.strip())
    if source.words_pattern:
        matched: list[str] = []
        for match in re.finditer(source.words_pattern, sample.bare_question):
            matched += [word.strip() for word in match.groups() or (match[0],) if word]
        return tuple(dict.fromkeys(filter(None, matched)))
    return tuple(source.words)


@dataclass(frozen=True)
class Detected(Where):
    r"""The detections of a detector in the source images, the highest score first.

    The words to look for come from one setting: `words`; the sample's field `words_field`, a string
    or a list of strings; or the question, in which every match of the regular expression
    `words_pattern` gives its groups, or the whole match if it has none (`'the (\w+) in'`; `'.+'` is
    the whole question). Without any of them the detector gets no words, which is right for
    detectors of one kind of object, such as faces.

    Boxes with a score below `min_score` (in the detector's own unit) or without an area are
    dropped. `order` "size" puts the largest first. `images` are counted from 0; None means all.
    Raises ValueError if the sample has no field of that name.
    """

    detector: Detector
    words: tuple[str, ...] = ()
    words_field: str = ""
    words_pattern: str = ""
    min_score: float | None = None
    order: Literal["score", "size"] = "score"
    images: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_words(self)

    def places(self, state: State, model: Model) -> Places:
        """Return the boxes by image."""
        words = find_words(self, state.sample)
        return Places.search(
            f"box{_format_words(words)}",
            state,
            self.images,
            lambda number: self._make_boxes(state.sample, number, words),
        )

    def _make_boxes(self, sample: Sample, number: int, words: Sequence[str]) -> list[Mark]:
        """Return the boxes in one source image, the most important first. Raises NoEvidence."""
        if not words and (self.words_field or self.words_pattern):
            raise NoEvidence("the sample has no words to look for")
        boxes = look_once(self.detector, sample.images[number].pixels, words or None)
        x0, y0, x1, y1 = boxes.xyxy.T
        area = (x1 - x0) * (y1 - y0)
        order = argsort_descending(area if self.order == "size" else boxes.scores)
        sure = boxes.scores >= (-np.inf if self.min_score is None else self.min_score)
        kept = order[(sure & (area > 0))[order]]
        if not len(kept):
            raise NoEvidence(f"no box{_format_words(words)} in image {number}")
        boxes, kept_boxes = boxes[kept], list[Mark]()
        for label, (left, top, right, bottom) in zip(
            boxes.labels, boxes.xyxy.tolist(), strict=True
        ):
            kept_boxes.append(Box(str(label), left, top, right, bottom, number))
        return kept_boxes


def _format_words(words: Sequence[str]) -> str:
    return f" for {', '.join(words)}" if words else ""


@dataclass(frozen=True)
class InCells(Where):
    """Cells of the grid that an earlier stage drew on the views.

    `grid` repeats the settings of that stage, as a reference `${stages.SLOT}`. `cells` are names as
    the grid writes them: "B2", "(2,3)", or with the number of the image "(1,2,3)". Without `cells`,
    the cells that the model's last reply names are used. The views must be those on which the grid
    was drawn. For a RuledGrid a region is the cell; for a DotGrid it extends `around` spacings to
    each side of the dot (2 in Scaffold). `images` are counted from 0; None means all.
    """

    grid: DotGrid | RuledGrid
    cells: tuple[str, ...] = ()
    around: float = 2
    images: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.grid, DotGrid | RuledGrid):
            raise ValueError(
                "grid must be a DotGrid or a RuledGrid of prompting.grids, got"
                f" {type(self.grid).__name__}"
            )
        if isinstance(self.grid, RuledGrid) and self.grid.names == "none":
            raise ValueError("grid has names: none, so no cell can be named; give it other names")
        check_ranges(self, "around > 0")
        wrong = [cell for cell in self.cells if not self._has_cell(cell)]
        if wrong:
            raise ValueError(
                f"the grid has no cell {' and no cell '.join(map(repr, wrong))}: it has"
                f" {self.grid.rows} rows and {self.grid.columns} columns; write cell names as"
                " the grid does"
            )

    def places(self, state: State, model: Model) -> Places:
        """Return the named cells by image."""
        sources = list_shown_sources(state, self.images)
        regions: dict[int, list[Mark]] = {number: [] for number in sources}
        for box in self._make_boxes(state.views, " ".join(self.cells) or state.reply):
            regions.setdefault(box.image, []).append(box)
        region_phrase = "cell of those named" if self.cells else "cell that the reply names"
        return Places(region_phrase, regions, sources)

    def _has_cell(self, name: str) -> bool:
        if isinstance(self.grid, RuledGrid):
            every = np.ndindex(self.grid.rows, self.grid.columns)
            return name in {self.grid.make_cell_name(*place) for place in every}
        named = read_coordinates(name)
        return len(named) == 1 and self.grid.has_dot(named[0])

    def _make_boxes(self, views: Sequence[View], reply: str) -> Iterator[Box]:
        """Yield the cells that a text names as boxes of the source images."""
        if isinstance(self.grid, RuledGrid):
            for number in range(len(self.grid.select_gridded_views(views))):
                yield from self.grid.places(views, reply, number + 1)
            return
        for view, (*_, row, column) in self.grid.find_named_dots(views, reply):
            box = find_source_box(
                view, self.grid.make_box_around(view.size, row, column, self.around)
            )
            if box is not None:
                yield box


MAX_BOXES = 50


@dataclass(frozen=True)
class Claimed(Where):
    """The boxes [left, top, right, bottom] in the model's last reply or, with `points`, the points
    [x, y].

    Boxes and points are also read in the forms that model families write: JSON with `bbox_2d`,
    `box_2d` (top first), `x1` or `left`, tags such as `<box>`, pairs of corners, bins, patches and
    percentages. If any lines begin with LOOK, only those are read. A place is on the image that its
    object or line names ("image 2", "the second image"), else on the image that the line above
    introduces, else on the first. `frame` is the unit that the prompt asked for: pixels of the
    view, or coordinates normalised to 0-1 or 0-1000. A box outside its view, without an area, with
    swapped corners or in another unit is skipped with a note; a box that is clipped gets a note
    too.
    """

    frame: Frame = "0-1000"
    points: bool = False

    version: ClassVar[int] = 3

    def places(self, state: State, model: Model) -> Places:
        """Return the claimed boxes by image."""
        regions: dict[int, list[Mark]] = {}
        notes = []
        claims = list(islice(read_claims(strip_thoughts(state.reply), self.points), MAX_BOXES + 1))
        if len(claims) > MAX_BOXES:
            notes.append(
                f"the reply names more than {MAX_BOXES} places; only the first {MAX_BOXES} are used"
            )
        for claim in claims[:MAX_BOXES]:
            try:
                region, cut = self._locate_region(state, claim)
                regions.setdefault(region.image, []).append(region)
                notes += [cut] if cut else []
            except ToolError as exc:
                notes.append(f"a claimed place was skipped: {exc}")
        sources = sorted(regions) or list_shown_sources(state, None)
        return Places("place that the reply names", regions, sources, notes=notes)

    def _locate_region(self, state: State, claim: Claim) -> tuple[Mark, str]:
        """Return the region of a source image, and a sentence if the box was cut. Raises
        ToolError."""
        number = len(state.views) if claim.image == LAST_IMAGE else claim.image
        if not 1 <= number <= len(state.views):
            raise ToolError(f"there is no image {number}; there are {len(state.views)}")
        view, numbers = state.views[number - 1], claim.numbers
        if len(numbers) == 2 and not self.points:
            raise ToolError(f"{list(numbers)} is a point; a box was asked for")
        image, frame, name = ShownImage(view, view), claim.frame or self.frame, f"image {number}"
        edges, seen = image.locate(numbers, frame, name), None
        if not self.points:
            left, top, right, bottom = edges
            seen = find_source_box(view, Box("", left, top, right, bottom))
        elif at := view.to_source(*edges):
            return Point("", at[1], at[2], at[0]), ""
        if seen is None:
            raise ToolError(f"the place {list(numbers)} shows nothing of the sample's own images")
        return seen, image.describe_cut(numbers, frame, name)


@dataclass(frozen=True)
class Given(Where):
    """The region needed to answer, as the sample gives it: the result of a perfect source.

    A stage never sees the correct answer, so the region must be given: by `label`, the label of a
    mark that every sample has, such as REF, or, if that is empty or null, by the sample's field
    `hint`, which holds the label of a mark, a box [x0, y0, x1, y1] of image 0 in edge coordinates,
    or a mark as records store it ({"x0": ..., "image": 1}). The field is part of the sample, so a
    template can reveal it to the model. If the choices are marks, a hint at the right one reveals
    the answer; point at what the question is about instead.
    """

    label: str | None = ""
    hint: str = "region"

    def places(self, state: State, model: Model) -> Places:
        """Return the one region. Raises ValueError if the sample does not give it."""
        region = self.find_region(state)
        return Places(f"region {region.label!r}", {region.image: [region]}, [region.image])

    def find_region(self, state: State) -> Mark:
        """Return the region. Raises ValueError if the sample does not give it."""
        sample, wanted = state.sample, self.label or state.sample.meta.get(self.hint)
        if isinstance(wanted, str) and wanted:
            named = [mark for mark in sample.marks if mark.label == wanted]
            if not named:
                there = ", ".join(mark.label for mark in sample.marks) or "none"
                raise ValueError(f"sample {sample.id} has no mark {wanted!r}; its marks: {there}")
            return named[0]
        try:
            if isinstance(wanted, Mapping):
                return mark_from_dict(wanted)
            if isinstance(wanted, list | tuple) and len(wanted) == 4:
                x0, y0, x1, y1 = (float(edge) for edge in wanted)
                return Box(self.hint, x0, y0, x1, y1)
        except (TypeError, ValueError) as exc:
            raise ValueError(
                f"sample {sample.id}: its field {self.hint!r} is not a region ({exc})"
            ) from exc
        raise ValueError(
            f"sample {sample.id} does not say where to look: {self.hint}={wanted!r}; give `label`,"
            f" or write a mark's label or a box [x0, y0, x1, y1] into its field {self.hint!r}"
        )
