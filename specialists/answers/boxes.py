"""Rules that answer from detections: which drawn box fits an object, what a text says, how many
objects there are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import numpy as np

from looktwice.pipelines.counted import NUMBER_WORDS
from looktwice.pipelines.geometry import iou, measure_overlap
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import (
    AnswerRule,
    Decision,
    choose_true_or_false,
    find_best_choice,
    list_choice_texts,
    map_letters_to_marks,
    parse_count,
    parse_enclosed,
    parse_relation,
)
from looktwice.specialists.protocols import DepthEstimator, Detector
from looktwice.specialists.results import Boxes, Floats, argsort_descending
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once


def detect_object(detector: Detector, pixels: Pixels, words: str) -> Boxes:
    """Detect the object that `words` names; with empty words, the detector's own fixed class."""
    return look_once(detector, pixels, [words] if words else None)


@dataclass(frozen=True)
class FittingBox(AnswerRule):
    """Answers with the choice whose box overlaps most (IoU) with a detected box.

    The boxes are marks of image 0 that the choices name ("Box A"). The object is read from the
    question ("... encloses the tank top?") unless `words` names it; use `words: ""` for detectors
    of a fixed class. With `only_surest` only the detection with the highest score counts; otherwise
    each box is compared with the detection that fits it best. Confidence is the lead of the
    largest overlap over the next. Abstains if a box or the object's name is missing, if nothing is
    detected, if the detections overlap none of the boxes, and on a tie.
    """

    detector: Detector
    words: str | None = None
    only_surest: bool = False

    def decide(self, sample: Sample) -> Decision:
        boxes = map_letters_to_marks(sample, Box)
        words = parse_enclosed(sample) if self.words is None else self.words
        detected = detect_object(self.detector, sample.images[0].pixels, words)
        if not len(detected):
            raise NoEvidence(f"the detector finds no {words or 'object'}")
        candidates = detected.xyxy[:1] if self.only_surest else detected.xyxy
        fit = {
            letter: max(iou(box.xyxy, candidate) for candidate in candidates)
            for letter, box in boxes.items()
        }
        if max(fit.values()) == 0:
            raise NoEvidence(f"the detections of {words or 'objects'} overlap none of the boxes")
        return find_best_choice(fit, "the overlaps of")


@dataclass(frozen=True)
class ReadText(AnswerRule):
    """Answers with the text in the images, in the order in which `reader`, such as `PPOCR`, returns
    its lines.

    `join` is put between lines; "" also removes spaces inside the lines. With choices, the answer
    is the choice whose text is most similar to the text that was read (Ratcliff and Obershelp's
    share of common letters, ignoring case), and confidence is its lead over the next. Without
    choices, confidence is the lowest score of a line. Abstains if no text is read.
    """

    reader: Detector
    join: str = " "

    def decide(self, sample: Sample) -> Decision:
        """Return the text or the letter of a choice, and the confidence. Raises NoEvidence."""
        texts = [look_once(self.reader, image.pixels) for image in sample.images]
        lines = [str(text) for boxes in texts for text in boxes.labels]
        if not lines:
            raise NoEvidence("no text was found")
        text = self.join.join(lines) if self.join else "".join("".join(lines).split())
        choices = list_choice_texts(sample)
        if len(choices) > 1:
            likeness = {}
            for letter, choice in choices.items():
                pair = SequenceMatcher(None, text.casefold(), choice.casefold(), autojunk=False)
                likeness[letter] = pair.ratio()
            return find_best_choice(likeness, "choices")
        return text, min(float(boxes.scores.min()) for boxes in texts if len(boxes))


@dataclass(frozen=True)
class Count(AnswerRule):
    """Answers with the number of objects that the detector finds in all images together.

    The object is read from the question ("How many floats are there?") unless `words` names it; use
    `words: ""` for detectors of a fixed class. With choices, the answer is the choice with this
    number, or with `nearest` the choice with the nearest number. Without choices it is the number
    itself. Confidence is the mean score of the detections, halved for each unit by which the choice
    is off. If nothing is found, `nothing` decides whether to abstain or to count zero.
    """

    detector: Detector
    words: str | None = None
    nearest: bool = True
    nothing: Literal["abstain", "zero"] = "abstain"

    def decide(self, sample: Sample) -> Decision:
        """Return the letter or number, and the confidence. Raises NoEvidence."""
        if not sample.images:
            raise NoEvidence("there is no image to count in")
        words = parse_count(sample) if self.words is None else self.words
        detections = [detect_object(self.detector, image.pixels, words) for image in sample.images]
        number = sum(map(len, detections))
        if number == 0 and self.nothing == "abstain":
            raise NoEvidence(f"the detector finds no {words or 'object'}")
        sure = sum(float(boxes.scores.sum()) for boxes in detections) / number if number else 0.5
        answer, off = choose_number(sample, number, self.nearest)
        return answer, min(1.0, sure) / 2**off


def choose_number(sample: Sample, number: int, nearest: bool) -> tuple[str, int]:
    """Return the choice with this number or the nearest one, and how far off it is; without
    choices, the number itself.

    Raises NoEvidence if a choice contains no number, if no choice has this number, and if two are
    equally near.
    """
    if not sample.choices:
        return str(number), 0
    differences = {}
    for letter, choice in sample.lettered.items():
        text = str(choice).strip().lower()
        numbers = [NUMBER_WORDS.index(text)] if text in NUMBER_WORDS else re.findall(r"\d+", text)
        if len(numbers) != 1:
            raise NoEvidence(
                "not every choice contains exactly one number:"
                f" {', '.join(map(str, sample.choices))}"
            )
        differences[letter] = abs(int(numbers[0]) - number)
    least = min(differences.values())
    best = [letter for letter, off in differences.items() if off == least]
    if len(best) > 1 or (least and not nearest):
        which = "the only nearest one" if len(best) > 1 else "that number"
        raise NoEvidence(f"{number} objects were found, and no choice is {which}")
    return best[0], least


Corners = Floats
# largest gaps between boxes that touch or are near each other, divided by their mean size
TOUCH_MARGIN, NEAR_MARGIN = (0.05, 0.5)


@dataclass(frozen=True)
class SpatialRelation(AnswerRule):
    """Answers questions such as "Is the cat on top of the bed?" with yes or no, from the
    highest-scoring box of each object.

    The objects and the relation are read from the question (`RELATION_TABLE` in `choices`); left
    and right are the viewer's. Boxes touch if the gap between them is at most 0.05 of their mean
    size (the square root of the area), and are near each other up to 0.5. "In front of" and
    "behind" compare the median `depth` in the boxes. Confidence is the distance from the point at
    which the answer changes. Abstains if boxes cannot decide the relation (facing, part of ...), if
    an object is not found, if depth is needed but not set, and if the boxes lie exactly on the
    limit.
    """

    detector: Detector
    depth: DepthEstimator | None = None

    def decide(self, sample: Sample) -> Decision:
        subject, kind, object_ = parse_relation(sample)
        if not sample.images:
            raise NoEvidence("there is no image")
        pixels = sample.images[0].pixels
        detected = look_once(self.detector, pixels, list(dict.fromkeys((subject, object_))))
        if kind in ("front", "behind"):
            if self.depth is None:
                raise NoEvidence(f"boxes alone do not show what is {kind!r}; set `depth`")
            near = look_once(self.depth, pixels).nearness
            lead = _compare_depth(near, *_pick_boxes(detected, subject, object_))
            margin = lead if kind == "front" else -lead
        else:
            margin = measure_relation(kind, *_pick_boxes(detected, subject, object_))
        if margin == 0:
            raise NoEvidence(f"the {subject} and the {object_} are exactly on the limit of {kind}")
        return choose_true_or_false(sample, margin > 0), abs(margin)


def measure_relation(kind: str, subject: Corners, object_: Corners) -> float:
    """Compute how clearly a relation between two boxes xyxy (4,) holds, about -1 to 1: positive if
    it does, negative if not."""
    size = (subject[2:] - subject[:2] + object_[2:] - object_[:2]) / 2
    shift = (object_[:2] + object_[2:] - subject[:2] - subject[2:]) / 2
    across, down = shift / np.where(size > 0, size, 1)
    # their gap, or if negative the depth of their overlap, divided by their mean size
    gaps = np.maximum(subject[:2], object_[:2]) - np.minimum(subject[2:], object_[2:])
    apart = np.hypot(*gaps.clip(0)) if (gaps > 0).any() else gaps.max()
    apart /= max(float(np.sqrt(np.prod(size))), 1e-9)
    # the share of the narrower one's width above the other; negative if they are side by side
    narrower = min(subject[2] - subject[0], object_[2] - object_[0])
    over = -gaps[0] / max(narrower, 1e-9)
    covered = _measure_covered_share(subject, object_)
    margins = {
        "left": across,
        "right": -across,
        "above": min(down, over),
        "below": min(-down, over),
        "on": min(down, over, TOUCH_MARGIN - apart),
        "inside": 2 * covered - 1,
        "outside": 1 - 2 * covered,
        "contains": 2 * _measure_covered_share(object_, subject) - 1,
        "touching": TOUCH_MARGIN - apart,
        "near": NEAR_MARGIN - apart,
        "far": apart - NEAR_MARGIN,
    }
    return float(margins[kind])


def _pick_boxes(detected: Boxes, subject: str, object_: str) -> tuple[Corners, Corners]:
    """Return the highest-scoring box of each object, or the two highest-scoring boxes if both
    objects have the same name. Raises NoEvidence."""
    surest = detected[argsort_descending(detected.scores)]
    first, second = (surest.xyxy[surest.labels == word] for word in (subject, object_))
    missing = [word for word, boxes in ((subject, first), (object_, second)) if not len(boxes)]
    if missing or (subject == object_ and len(first) < 2):
        raise NoEvidence(f"the detector finds no {' and no '.join(missing) or f'second {object_}'}")
    return first[0], second[int(subject == object_)]


def _measure_covered_share(inner: Corners, outer: Corners) -> float:
    """Return the share of the first box's area that lies in the second."""
    return measure_overlap(inner, outer) / max(float(np.prod(inner[2:] - inner[:2])), 1e-9)


def _compare_depth(near: Floats, first: Corners, second: Corners) -> float:
    """Compute how much nearer the pixels in the first box are, as a share of the map's range; each
    box contributes at least one pixel."""
    medians = []
    for box in (first, second):
        most = near.shape[1] - 1, near.shape[0] - 1
        left, top = np.minimum(np.floor(box[:2]).astype(int).clip(0), most)
        right, bottom = np.maximum(np.ceil(box[2:]).astype(int), (left + 1, top + 1))
        inside = near[top:bottom, left:right]
        if not np.isfinite(inside).any():
            raise NoEvidence("no depth is known inside one of the boxes")
        medians.append(float(np.nanmedian(inside)))
    low, high = np.nanpercentile(near, [5, 95])
    lead = medians[0] - medians[1]
    return lead / float(high - low) if high > low else float(np.sign(lead))
