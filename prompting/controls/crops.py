"""Control crops for zooms: the true region as an upper bound, and a random one of the same size as
a placebo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from looktwice.pipelines.geometry import overlap
from looktwice.pipelines.marks import Box, Mark, mark_from_dict
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.ranges import check_ranges
from looktwice.prompting.views.crop import Crop

CANDIDATES = 64  # random places that are drawn at most, of which some may not hold the crop


@dataclass(frozen=True)
class OracleCrop(WithoutModel):
    """The part of a view around the region that matters: what a perfect zoom would show.

    A stage never sees the key, so the region must be given: by `label`, the label of a mark that
    every sample has, such as REF, or else, where that is empty or null, by the sample's field
    `hint`, which holds the label of a mark, a box [x0, y0, x1, y1] of image 0 in edge coordinates,
    or a mark as records hold it ({"x0": ..., "image": 1}). The field is part of the sample, so a
    template can reveal it to the model. If the choices are marks, a hint at the right one reveals
    the answer; point at what the question is about instead.

    `crop` says how the region is cropped, as in every zoom. Views that do not show it stay as they
    are.

    With `elsewhere` it is its own placebo: a crop of the same size in the same views, at the one of
    `tries` random places (1 to 64) that overlaps least with the true one. With `tries: 1` that is a
    uniform draw over all places where the crop fits, of which some show a part of the region; with
    more, the place keeps off it. The places are the same in every run with the same seed, sample
    and draw; another `seed` gives others.
    """

    label: str | None = ""
    hint: str = "region"
    crop: Crop = field(default_factory=Crop)
    elsewhere: bool = False
    tries: int = CANDIDATES
    seed: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, "tries >= 1", "tries <= 64")

    def __call__(self, state: State, model: Model) -> State:
        """The state with crops. Raises ValueError if the region is not given or no view shows
        it."""
        places, crop = self.places(state), self.crop
        if self.elsewhere:
            rng = state.rng(f"RandomCrop {self.seed}")
            places = {
                number: self._place_off(state.views[number], true, rng)
                for number, true in places.items()
            }
            # a place is the whole area of its crop
            crop = replace(crop, padding=0, min_px=0, min_share=0, aspect=None)
        return _crop_places(state, places, crop)

    def _place_off(self, view: View, true: Mark, rng: np.random.Generator) -> Mark:
        """A box of the size of the true crop, within one part of the view; the true one where there
        is no other."""
        area, exact = self.crop.areas(view, [true])[0][0], Crop(padding=0, min_px=0)
        size = area[2] - area[0], area[3] - area[1]
        drawn = rng.integers(
            (0, 0), np.subtract(view.size, size), (CANDIDATES, 2), endpoint=True
        ).tolist()
        boxes = (_random_box(*size, left, top, true.image) for left, top in drawn)
        fitting = islice(
            (box for box in boxes if exact.areas(view, [box])[0][0] == box.xyxy), self.tries
        )
        true_area = _random_box(*size, *area[:2], true.image)
        return min(fitting, key=lambda box: overlap(area, box.xyxy), default=true_area)

    def places(self, state: State) -> dict[int, Mark]:
        """The region in the coordinates of each view that shows it, by the view's index."""
        region = self._region(state)
        seen = {number: view.to_view(region) for number, view in enumerate(state.views)}
        if not any(seen.values()):
            raise ValueError(f"sample {state.sample.id}: no view shows the region {region.label!r}")
        return {number: places[0] for number, places in seen.items() if places}

    def _region(self, state: State) -> Mark:
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
                f"sample {sample.id}: its field {self.hint!r} is no region ({exc})"
            ) from exc
        raise ValueError(
            f"sample {sample.id} does not say where to look: {self.hint}={wanted!r}; give `label`,"
            f" or write a mark's label or a box [x0, y0, x1, y1] into its field {self.hint!r}"
        )


@dataclass(frozen=True)
class RandomCrop(WithoutModel):
    """A crop of `share` of each view's width and height at a random place, to tell whether any zoom
    helps.

    The places are the same in every run with the same seed, sample and draw; another `seed` gives
    others. The placebo of one region is `OracleCrop` with `elsewhere`.
    """

    share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, "share > 0", "share <= 1")

    def __call__(self, state: State, model: Model) -> State:
        """The state with crops."""
        rng = state.rng(f"RandomCrop {self.seed}")
        places: dict[int, Mark] = {}
        for number, view in enumerate(state.views):
            width, height = (max(1, round(self.share * side)) for side in view.size)
            left = int(rng.integers(view.size[0] - width + 1))
            top = int(rng.integers(view.size[1] - height + 1))
            places[number] = _random_box(width, height, left, top)
        return _crop_places(state, places, Crop(padding=0, min_px=1))


def _crop_places(state: State, places: Mapping[int, Mark], crop: Crop) -> State:
    views: list[View] = []
    notes: list[str] = []
    for number, view in enumerate(state.views):
        if number not in places:
            views.append(view)
            continue
        areas, _ = crop.areas(view, [places[number]])
        marks = [place for mark in state.sample.marks for place in view.to_view(mark)]
        try:
            shown, remarks = crop(view, [places[number]], marks)
        except ValueError as exc:
            raise ValueError(f"sample {state.sample.id}: {exc}") from exc
        views += shown
        notes += [f"view {number + 1} cropped to {areas[0]}", *remarks]
    return state.replace(views=tuple(views)).with_notes(*notes)


def _random_box(width: float, height: float, left: float, top: float, image: int = 0) -> Box:
    return Box("random", left, top, left + width, top + height, image)
