"""Which of the drawn boxes fits an object, by the detector's own box of it."""

from __future__ import annotations

from dataclasses import dataclass

from looktwice.pipelines.geometry import iou
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, best_choice, boxes_by_letter
from looktwice.specialists.answers.question_parsing import parse_enclosed
from looktwice.specialists.protocols import Detector, NoEvidence
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class FittingBox(AnswerRule):
    """Answers with the choice that refers to the box of largest overlap (IoU) with a detected box.

    The boxes are marks of image 0 that the choices name ("Box A"). What is looked for is read from the question
    ("... encloses the tank top?") unless `words` says it; `words: ""` is for detectors of one kind of thing. With
    `only_surest` the surest find alone counts, else each box is compared with the find that it fits best. Confidence
    is the difference of the overlaps. Abstains where a box or the words are missing, where nothing is found or what
    is found overlaps neither box, and at a tie.
    """

    detector: Detector
    words: str | None = None
    only_surest: bool = False

    def decide(self, sample: Sample) -> tuple[str, float]:
        boxes = boxes_by_letter(sample)
        words = parse_enclosed(sample) if self.words is None else self.words
        found = look_once(self.detector, sample.images[0].pixels, [words] if words else None)
        if not len(found):
            raise NoEvidence(f"the detector finds no {words or 'thing'}")
        finds = found.xyxy[:1] if self.only_surest else found.xyxy
        fit = {letter: max(iou(box.xyxy, find) for find in finds) for letter, box in boxes.items()}
        if max(fit.values()) == 0:
            raise NoEvidence(f"what the detector finds as {words or 'thing'} overlaps none of the boxes")
        return best_choice(fit, "the overlaps of")
