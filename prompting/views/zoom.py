"""Zooming: crops around marks, detected things or cells of a grid, alone or beside the whole image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Box, Mark
from looktwice.pipelines.model import Model
from looktwice.pipelines.sample import Sample, check_marks
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.evidence import Missing, handle_missing
from looktwice.prompting.grids.base import read_coordinates, source_box
from looktwice.prompting.grids.grids import DotGrid, RuledGrid
from looktwice.prompting.views.crop import Crop
from looktwice.specialists.protocols import Detector, NoEvidence


@dataclass(frozen=True)
class ZoomTargets:
    """Regions by the number of their source image, and why there are none in others; `sought` names what they are."""

    sought: str
    regions: Mapping[int, Sequence[Mark]] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)

    def places(self, view: View, sources: Sequence[int]) -> list[Mark]:
        """Where the regions are seen in a view, in its own coordinates."""
        return [place for k in sources for region in self.regions.get(k, ()) for place in view.to_view(region)]

    def reason(self, sources: Sequence[int]) -> str:
        """Why a view of these sources shows no region."""
        known = [self.reasons[k] for k in sources if k in self.reasons]
        return "; ".join(known) or f"no {self.sought} is seen"


def zoom_views(state: State, found: ZoomTargets, crop: Crop, missing: Missing, wanted: Sequence[int]) -> State:
    """The state with each view of a wanted source image zoomed, or what `missing` says where one shows no region."""
    views, notes, lacking = list[View](), list[str](), list[str]()
    for number, view in enumerate(state.views, 1):
        sources = sorted({part.source for part in view.parts} & set(wanted))
        places = found.places(view, sources)
        if places:
            marks = [place for mark in state.sample.marks for place in view.to_view(mark)]
            shown, more = _crop_view(state.sample, crop, view, places, marks)
            views += shown
            notes += [f"view {number}: {note}" for note in more]
        else:
            views.append(view)
            lacking += [f"view {number}: {found.reason(sources)}"] if sources else []
    if lacking and missing != "keep":
        return handle_missing(state, missing, lacking)
    return state.replace(views=tuple(views)).with_notes(*notes, *(f"{reason}; kept as it is" for reason in lacking))


def _crop_view(
    sample: Sample, crop: Crop, view: View, places: Sequence[Mark], marks: Sequence[Mark]
) -> tuple[list[View], list[str]]:
    try:
        return crop(view, places, marks)
    except ValueError as exc:
        raise ValueError(f"sample {sample.id}: {exc}") from exc


def shown_sources(state: State, images: Sequence[int] | None) -> list[int]:
    """The numbers of the wanted source images that a view shows. Raises ValueError for one that is not there."""
    count = len(state.sample.images)
    for number in images or ():
        if not 0 <= number < count:
            raise ValueError(
                f"sample {state.sample.id}: images names {number}, but there are {count} images, counted from 0"
            )
    shown = {part.source for view in state.views for part in view.parts}
    return sorted(shown if images is None else shown & set(images))


@dataclass(frozen=True)
class ZoomOnMarks:
    """Zooms on the sample's marks, or on those in `labels`; `crop` says how.

    Every view that shows one of `images` is looked at by itself; these are numbers counted from 0, and None means
    all images that have such a mark. Other views are passed on. `missing` says what is done where no image has one,
    or a view does not show it: it is kept as it is, with a note in the record, or the sample fails, or abstains.
    Calling raises ValueError for a mark outside its own image.
    """

    labels: tuple[str, ...] = ()
    images: tuple[int, ...] | None = None
    missing: Missing = "fail"
    crop: Crop = field(default_factory=Crop)

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """The state with the zoomed views."""
        check_marks(state.sample)
        wanted = [mark for mark in state.sample.marks if not self.labels or mark.label in self.labels]
        sought = f"mark {' or '.join(map(repr, self.labels))}" if self.labels else "mark"
        sources = shown_sources(state, self.images)
        if self.images is None:
            sources = [number for number in sources if any(mark.image == number for mark in wanted)] or sources
        found = ZoomTargets(sought, {number: [mark for mark in wanted if mark.image == number] for number in sources})
        return zoom_views(state, found, self.crop, self.missing, sources)


@dataclass(frozen=True)
class ZoomOnDetections:
    """Zooms on what a detector finds in the source images, the highest score first; `crop` says how.

    What is looked for comes from one place: `words`; the sample's own field `words_field`, a text or a list of texts;
    or the question, where every match of the regular expression `words_pattern` gives its groups, or all of itself
    (`'the (\\w+) in'`; `'.+'` is the question as it stands). Without any of them the detector is told no word,
    which one of a single kind, as of faces, does not need.

    Boxes with a score below `min_score` (in the detector's own unit) or without an area are dropped; `order` "size"
    puts the largest first, which counts where `crop.most` is small. `images` are numbers counted from 0, None meaning
    all. By `missing` a view in which nothing is found is kept, with a note in the record, or the sample fails, or
    abstains. Calling raises ValueError where the sample has no field of that name.
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

    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        given = [name for name in ("words", "words_field", "words_pattern") if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"words come from one place, found {' and '.join(given)}")
        if any(not word.strip() for word in self.words):
            raise ValueError(f"words holds an empty text: {list(self.words)}")
        try:
            re.compile(self.words_pattern)
        except re.error as exc:
            raise ValueError(f"words_pattern {self.words_pattern!r} is no regular expression: {exc}") from exc

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
        found = ZoomTargets(f"box{_for_words(words)}", regions, reasons)
        return zoom_views(state, found, self.crop, self.missing, sources)

    def _words(self, sample: Sample) -> tuple[str, ...]:
        if self.words_field:
            return _words_in_field(sample, self.words_field)
        if self.words_pattern:
            matches = re.finditer(self.words_pattern, sample.question)
            found = (word for m in matches for word in (m.groups() or (m.group(),)) if word and word.strip())
            return tuple(dict.fromkeys(word.strip() for word in found))
        return self.words

    def _boxes(self, sample: Sample, number: int, words: Sequence[str]) -> list[Mark]:
        """The boxes in one source image as marks, in the order in which they count. Raises NoEvidence."""
        if not words and (self.words_field or self.words_pattern):
            raise NoEvidence("the sample names nothing to look for")
        found = self.detector(sample.images[number].pixels, words or None)
        x0, y0, x1, y1 = found.xyxy.T
        area = (x1 - x0) * (y1 - y0)
        order = np.argsort(-(area if self.order == "size" else found.scores), kind="stable")
        sure = found.scores >= (-np.inf if self.min_score is None else self.min_score)
        kept = [k for k in order if sure[k] and area[k] > 0]
        if not kept:
            raise NoEvidence(f"no box{_for_words(words)} in image {number}")
        return [_make_box(str(found.labels[k]), found.xyxy[k], number) for k in kept]


def _make_box(label: str, xyxy: NDArray[np.float64], image: int) -> Box:
    x0, y0, x1, y1 = xyxy.tolist()
    return Box(label, x0, y0, x1, y1, image)


def _for_words(words: Sequence[str]) -> str:
    return f" for {', '.join(words)}" if words else ""


@dataclass(frozen=True)
class ZoomOnCells:
    """Zooms on cells of the grid that an earlier stage drew on the views; `crop` says how, without padding of its own.

    `grid` are the settings of that stage, as `${stages.SLOT}` repeats them. `cells` are names as the grid writes
    them: "B2", "(2,3)", or with the number of the image "(1,2,3)"; without any, those that the model's last turn
    names count, the next look of an active one. The views must still be those that the grid was drawn on. A cell of a
    RuledGrid is zoomed on itself, a dot of a DotGrid with `around` spacings on each side, Scaffold's own 2.

    A view of which no cell is named is kept, with a note in the record, or `missing` says otherwise.
    """

    grid: DotGrid | RuledGrid
    cells: tuple[str, ...] = ()
    around: float = 2
    images: tuple[int, ...] | None = None
    missing: Missing = "keep"
    crop: Crop = field(default_factory=lambda: Crop(padding=0, min_px=0))

    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.grid, DotGrid | RuledGrid):
            raise ValueError(
                f"grid is a DotGrid or a RuledGrid of prompting.grids.grids, found {type(self.grid).__name__}"
            )
        if isinstance(self.grid, RuledGrid) and self.grid.names == "none":
            raise ValueError("a grid with names: none has no cell that could be named")
        if not self.around > 0:
            raise ValueError(f"around is more than 0 spacings of the dots, found {self.around}")
        wrong = [cell for cell in self.cells if not self._knows(cell)]
        if wrong:
            raise ValueError(
                f"the grid has no {' and no '.join(map(repr, wrong))}: it has {self.grid.rows} rows and "
                f"{self.grid.columns} columns, and its names are those that it writes"
            )

    def __call__(self, state: State, model: Model) -> State:
        """The state with the zoomed views."""
        sources = shown_sources(state, self.images)
        regions: dict[int, list[Mark]] = {number: [] for number in sources}
        for box in self._boxes(state.views, " ".join(self.cells) or state.reply):
            regions.setdefault(box.image, []).append(box)
        found = ZoomTargets("cell of those named" if self.cells else "cell that the reply names", regions)
        return zoom_views(state, found, self.crop, self.missing, sources)

    def _knows(self, name: str) -> bool:
        if isinstance(self.grid, RuledGrid):
            every = np.ndindex(self.grid.rows, self.grid.columns)
            return name in {self.grid.name(*place) for place in every}
        return len(read_coordinates(name)) == 1 and self._has(read_coordinates(name)[0])

    def _has(self, named: Sequence[int]) -> bool:
        return min(named) >= 1 and named[-2] <= self.grid.rows and named[-1] <= self.grid.columns

    def _boxes(self, views: Sequence[View], said: str) -> Iterator[Box]:
        """The named cells as boxes of the source images."""
        shown = self.grid.gridded_views(views)
        if isinstance(self.grid, RuledGrid):
            for number in range(1, len(shown) + 1):
                yield from self.grid.places(views, said, number)
            return
        for named in read_coordinates(said):
            number = named[0] if len(named) == 3 else 1
            if self._has(named) and number <= len(shown):
                view, (row, column) = shown[number - 1], named[-2:]
                box = source_box(view, self.grid.around(view.size, row, column, self.around))
                yield from [box] if box is not None else []


def _words_in_field(sample: Sample, name: str) -> tuple[str, ...]:
    """The words in a field of a sample's meta. Raises ValueError where there is no such field or it holds no text."""
    value = sample.meta.get(name)
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        known = ", ".join(sorted(sample.meta)) or "none"
        raise ValueError(
            f"sample {sample.id}: its field {name!r} is {value!r}, not a text or a list of texts (fields: {known})"
        )
    return tuple(word.strip() for word in words if word.strip())
