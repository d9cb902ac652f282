"""Zooms: crops around regions from any source, alone or next to the whole image; and markers drawn
on such regions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean

from looktwice.pipelines.marks import Mark
from looktwice.pipelines.model import Model
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.evidence import MissingAction, handle_missing
from looktwice.prompting.views.crop import Crop
from looktwice.prompting.where.places import Places, Where, WithSource
from looktwice.prompting.where.sources import Detected, InCells, OnMarks


def zoom_views(state: State, places: Places, crop: Crop, missing: MissingAction) -> State:
    """Zoom in on the regions that each view of a searched image shows; `missing` decides how views
    without a region are handled.

    Measures `crop_share`, the mean share of a view that a crop shows.
    """
    views, notes, lacking, shares = list[View](), list[str](), list[str](), list[float]()
    for number, view in enumerate(state.views, 1):
        sources = sorted({part.source for part in view.parts} & set(places.images))
        marks: list[Mark] = []
        for region in chain.from_iterable(places.regions.get(source, ()) for source in sources):
            marks += view.to_view(region)
        if marks:
            shown, more = crop.crop_view(state, view, marks)
            views += shown
            notes += [f"view {number}: {note}" for note in more]
            for left, top, right, bottom in crop.find_areas(view, marks)[0]:
                shares.append((right - left) * (bottom - top) / (view.size[0] * view.size[1]))
        else:
            views.append(view)
            why = "; ".join(places.reasons[n] for n in sources if n in places.reasons)
            lacking += (
                [f"view {number}: {why or f'no {places.region_phrase} is seen'}"] if sources else []
            )
    state = state.measured("crop_share", fmean(shares)) if shares else state
    if not lacking or missing == "keep":
        state = state.replace(views=tuple(views)).with_notes(*notes)
    if lacking:
        state = handle_missing(state, missing, lacking)
    return state.with_notes(*places.notes)


@dataclass(frozen=True)
class Zooming(Where):
    """A zoom on the regions that its own settings select.

    `crop` sets how it is cropped and shown. `missing` decides what happens to a view that shows no
    region: "keep" it with a note in the record, "fail" the sample, or "abstain".
    """

    missing: MissingAction = "keep"
    crop: Crop = field(default_factory=Crop)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the zoomed views."""
        return zoom_views(state, self.places(state, model), self.crop, self.missing)


@dataclass(frozen=True)
class ZoomOnMarks(Zooming, OnMarks):
    """Zooms in on the sample's marks, or on those in `labels`, instead of the whole view
    (`crop.show` can keep it), like `Look` with `prompting.where.OnMarks` as its source.

    It applies to every view of the `images`. `missing` applies if no image has such a mark or a
    view does not show it.
    """

    missing: MissingAction = "fail"


@dataclass(frozen=True)
class ZoomOnDetections(Zooming, Detected):
    """Zooms in on the detections of a detector in the source images, like `Look` with
    `prompting.where.Detected` as its source."""


@dataclass(frozen=True)
class ZoomOnCells(Zooming, InCells):
    """Zooms in on cells of a grid, by default without padding, like `Look` with
    `prompting.where.InCells` as its source."""

    crop: Crop = field(default_factory=lambda: Crop(padding=0, min_px=0))


@dataclass(frozen=True)
class Look(WithSource):
    """Crops the regions that any source of `prompting.where` finds, instead of the whole view;
    `crop` sets how they are cropped, and its `show` can keep the view too.

    With `prompting.where.Sized` around each source, and one `crop.upscale`, different sources give
    pictures of one size, which cost the same tokens. `prompting.where.Elsewhere` is the placebo of
    each source, `prompting.where.Given` is the oracle for all of them. `where` is the source. For a
    view that shows no region, `missing` decides whether to "keep" it with a note in the record,
    "fail" the sample, or "abstain".
    """

    where: Where
    crop: Crop = field(default_factory=Crop)
    missing: MissingAction = "keep"

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the zoomed views."""
        return zoom_views(state, self.where.places(state, model), self.crop, self.missing)


@dataclass(frozen=True)
class Show(Ranged, WithSource):
    """Draws on the regions that any source of `prompting.where` finds, without cropping the views:
    `marker` is any stage that draws on marks; it gets the regions as marks.

    `prompting.markers.Spotlight` dims, blurs or greys everything else, `Rectangles`, `Contours` and
    `Tint` mark boxes and masks, `Circles` and `Dots` points. `where` is the source. The first
    `most` regions of an image are drawn; `missing` is that of `Look`, for a sample without any
    region. Measures `regions_shown`, the number of regions, which is the model's count
    if the regions are points that it gave.
    """

    where: Where
    marker: Stage
    most: int = 6
    missing: MissingAction = "keep"

    ranges = ("most >= 1",)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the regions drawn on its views; the sample's own marks stay
        unchanged."""
        places, sample = self.where.places(state, model), state.sample
        marks = tuple(chain.from_iterable(m[: self.most] for m in places.regions.values()))
        state = state.with_notes(*places.notes)
        if not marks:
            reasons = [*places.reasons.values()] or [f"no {places.region_phrase} is seen"]
            return handle_missing(state, self.missing, reasons)
        shown = self.marker(state.replace(sample=replace(sample, marks=marks)), model)
        return shown.replace(sample=sample).measured("regions_shown", len(marks))
