"""Comparison of the places that a model named with those of a correct answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from looktwice.extras.grounding.labels import match_label
from looktwice.extras.grounding.places import Place, Places
from looktwice.pipelines.geometry import iou, measure_overlap

MASK_SLACK = 2.0  # pixels by which a mask may stick out of its box, as polygons are rounded


def compute_place_iou(found: Place, true: Place) -> float:
    """Return the intersection over union of two boxes on one image, 0..1; for a crowd, the share of
    the predicted box that lies in it, as COCO defines it."""
    if found.image != true.image or not (found.has_area and true.has_area):
        return 0.0
    one, other = _get_edges(found), _get_edges(true)
    return measure_overlap(one, other) / found.area if true.crowd else iou(one, other)


def _get_edges(place: Place) -> tuple[float, float, float, float]:
    left, top, right, bottom = place.numbers
    return left, top, right, bottom


def holds_point(true: Place, found: Place) -> bool:
    """Return whether a point, or the middle of a box, lies in a ground-truth place: in its mask, or
    else in its box, edges included."""
    if found.image != true.image:
        return False
    x, y = found.numbers[:2]
    if found.is_box:
        x, y = ((found.numbers[k] + found.numbers[k + 2]) / 2 - 0.5 for k in (0, 1))
    if not true.is_box:
        return (x, y) == true.numbers
    left, top, right, bottom = true.numbers
    slack = 0 if true.source is None and true.mask is None else MASK_SLACK
    inside = left - slack <= x + 0.5 <= right + slack and top - slack <= y + 0.5 <= bottom + slack
    if not inside or true.region is None:
        return inside
    row, column = math.floor(y + 0.5), math.floor(x + 0.5)
    height, width = true.region.shape
    return 0 <= row < height and 0 <= column < width and bool(true.region[row, column])


def pick_top_place(found: Places) -> Places:
    """Return the first place or, if all have confidences, the most confident one; () if there is
    none."""
    if any(place.score is None for place in found):
        return found[:1]
    return tuple(sorted(found, key=lambda place: -(place.score or 0.0))[:1])


@dataclass(frozen=True)
class MatchCounts:
    """The numbers of correctly named places, of wrongly named ones and of missed ones; optional
    places are not counted."""

    hit_count: int
    extra_count: int
    missed_count: int

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 1 if there was nothing to find or name."""
        total = 2 * self.hit_count + self.extra_count + self.missed_count
        return 2 * self.hit_count / total if total else 1.0

    @property
    def precision(self) -> float | None:
        """The share of named places that are right; None if none was named."""
        named = self.hit_count + self.extra_count
        return self.hit_count / named if named else None

    @property
    def recall(self) -> float | None:
        """The share of ground-truth places that were found; None if there are none."""
        true = self.hit_count + self.missed_count
        return self.hit_count / true if true else None


def label_places(
    found: Places, names: Sequence[str], synonyms: Mapping[str, str], others: Sequence[str] = ()
) -> Places:
    """Return the predicted places, each with the category that its label names: one of `names`,
    which were asked for, or else one of `others`."""
    labelled = list[Place]()
    for place in found:
        label = match_label(place.label, names, synonyms)
        if label and label not in names and others:
            label = match_label(label, others, synonyms)
        labelled.append(replace(place, label=label))
    return tuple(labelled)


def match_places(
    found: Sequence[Place], true: Sequence[Place], fits: Callable[[Place, Place], float]
) -> MatchCounts:
    """Match predicted places with ground-truth places, one to one, so that as many as possible fit
    and the sum of their fits is largest. Labels must be equal if the ground-truth place has one.

    `fits` returns how well a predicted place fits a true one, 0 if it does not. A predicted place
    that fits only an optional one counts neither as right nor as wrong.
    """
    needed = [place for place in true if not place.is_optional]
    quality = np.array(
        [[_fit(one, other, fits) for other in needed] for one in found], float
    ).reshape(len(found), len(needed))
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment((quality > 0) * 1000.0 + quality, maximize=True)
    paired = {
        int(row) for row, column in zip(rows, columns, strict=True) if quality[row, column] > 0
    }
    optional = [place for place in true if place.is_optional]
    extra = 0
    for number, place in enumerate(found):
        if number not in paired and not any(_fit(place, other, fits) for other in optional):
            extra += 1
    return MatchCounts(len(paired), extra, len(needed) - len(paired))


def _fit(found: Place, true: Place, fits: Callable[[Place, Place], float]) -> float:
    return 0.0 if true.label and found.label != true.label else fits(found, true)
