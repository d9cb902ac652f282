"""Whether one object is in a spatial relation to another, by a box of each and, where needed,
depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import overlap
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, parse_relation, true_or_false
from looktwice.specialists.protocols import DepthEstimator, Detector, NoEvidence
from looktwice.specialists.results import Boxes
from looktwice.specialists.sharing import look_once

Corners = NDArray[np.float64]
# largest gaps between boxes that touch or are near each other, over their mean size
TOUCH, NEAR = (0.05, 0.5)


@dataclass(frozen=True)
class SpatialRelation(AnswerRule):
    """Answers yes or no to "Is the cat on top of the bed?" from the box with the highest score of
    each.

    The words and the relation are read from the question (`RELATIONS` in `choices`); left and right
    are the viewer's. Boxes touch up to a gap of 0.05 and are near each other up to 0.5 of their
    mean size (the square root of the area). "In front of" and "behind" compare the median `depth`
    in the boxes. Confidence is how far the boxes are from where the answer changes. Abstains where
    the question has no relation that boxes can decide (facing, part of ...), where an object is not
    found, where depth is needed and not set, and exactly on the limit.
    """

    detector: Detector
    depth: DepthEstimator | None = None

    def decide(self, sample: Sample) -> tuple[str, float]:
        subject, kind, object_ = parse_relation(sample)
        if not sample.images:
            raise NoEvidence("there is no image")
        if kind in ("front", "behind") and self.depth is None:
            raise NoEvidence(f"two boxes do not show what is {kind}; set depth")
        pixels = sample.images[0].pixels
        first, second = _pick_boxes(
            look_once(self.detector, pixels, list(dict.fromkeys((subject, object_)))),
            subject,
            object_,
        )
        if kind in ("front", "behind"):
            margin = self._nearer(pixels, first, second) * (1 if kind == "front" else -1)
        else:
            margin = relation_margin(kind, first, second)
        if margin == 0:
            raise NoEvidence(f"the {subject} and the {object_} are exactly on the limit of {kind}")
        return true_or_false(sample, margin > 0), abs(margin)

    def _nearer(self, pixels: Pixels, first: Corners, second: Corners) -> float:
        """How much nearer the first box is, as a share of the map's range."""
        if self.depth is None:
            raise NoEvidence("no depth")
        near = look_once(self.depth, pixels).nearness
        inside = [_crop_to_box(near, box) for box in (first, second)]
        if not all(np.isfinite(part).any() for part in inside):
            raise NoEvidence("no depth is known inside one of the boxes")
        low, high = np.nanpercentile(near, [5, 95])
        lead = float(np.nanmedian(inside[0]) - np.nanmedian(inside[1]))
        return lead / float(high - low) if high > low else float(np.sign(lead))


def relation_margin(kind: str, subject: Corners, object_: Corners) -> float:
    """How clearly a relation of two boxes xyxy (4,) holds: above 0 where it does, below where not,
    about -1 to 1."""
    size = (subject[2:] - subject[:2] + object_[2:] - object_[:2]) / 2
    across, down = (
        (object_[:2] + object_[2:] - subject[:2] - subject[2:]) / 2 / np.where(size > 0, size, 1)
    )
    apart = _gap(subject, object_) / max(float(np.sqrt(np.prod(size))), 1e-9)
    over = _horizontal_overlap(subject, object_)
    margins = {
        "left": across,
        "right": -across,
        "above": min(down, over),
        "below": min(-down, over),
        "on": min(down, over, TOUCH - apart),
        "inside": 2 * _covered_share(subject, object_) - 1,
        "outside": 1 - 2 * _covered_share(subject, object_),
        "contains": 2 * _covered_share(object_, subject) - 1,
        "touching": TOUCH - apart,
        "near": NEAR - apart,
        "far": apart - NEAR,
    }
    return float(margins[kind])


def _pick_boxes(detected: Boxes, subject: str, object_: str) -> tuple[Corners, Corners]:
    """The surest box of each; of two things of one name the two surest. Raises NoEvidence."""
    of_one, of_two = (detected[detected.labels == word] for word in (subject, object_))
    missing = [word for word, boxes in ((subject, of_one), (object_, of_two)) if not len(boxes)]
    if missing or (subject == object_ and len(of_one) < 2):
        raise NoEvidence(f"the detector finds no {' and no '.join(missing) or f'second {object_}'}")
    first = of_one.xyxy[np.argsort(-of_one.scores, kind="stable")]
    second = of_two.xyxy[np.argsort(-of_two.scores, kind="stable")]
    return first[0], second[1 if subject == object_ else 0]


def _gap(subject: Corners, object_: Corners) -> float:
    """The distance of two boxes in pixels; where they overlap, how deep, below 0."""
    apart = np.maximum(subject[:2], object_[:2]) - np.minimum(subject[2:], object_[2:])
    return float(np.hypot(*np.maximum(apart, 0))) if (apart > 0).any() else float(apart.max())


def _horizontal_overlap(subject: Corners, object_: Corners) -> float:
    """How much of the narrower box's width lies over the other; below 0 where they stand side by
    side."""
    width = min(subject[2] - subject[0], object_[2] - object_[0])
    return float((min(subject[2], object_[2]) - max(subject[0], object_[0])) / max(width, 1e-9))


def _covered_share(inner: Corners, outer: Corners) -> float:
    """The share of the first box's area that lies in the second."""
    return overlap(inner, outer) / max(float(np.prod(inner[2:] - inner[:2])), 1e-9)


def _crop_to_box(values: NDArray[np.float64], box: Corners) -> NDArray[np.float64]:
    """The values (height, width) of the pixels under a box, at least one of them."""
    left, top = np.minimum(
        np.floor(box[:2]).astype(int).clip(0), (values.shape[1] - 1, values.shape[0] - 1)
    )
    right, bottom = np.maximum(np.ceil(box[2:]).astype(int), (left + 1, top + 1))
    return values[top:bottom, left:right]
