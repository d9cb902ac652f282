"""Answers from what a detector finds: which drawn box fits a thing, what a text says, how many
things there are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from looktwice.pipelines.geometry import iou
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import (
    AnswerRule,
    best_choice,
    boxes_by_letter,
    parse_count,
    parse_enclosed,
)
from looktwice.specialists.protocols import Detector, NoEvidence
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class FittingBox(AnswerRule):
    """Answers with the choice that refers to the box of largest overlap (IoU) with a detected box.

    The boxes are marks of image 0 that the choices name ("Box A"). What is looked for is read from
    the question ("... encloses the tank top?") unless `words` says it; `words: ""` is for detectors
    of one kind of thing. With `only_surest` the surest find alone counts, else each box is compared
    with the find that it fits best. Confidence is the difference of the overlaps. Abstains where a
    box or the words are missing, where nothing is found or what is found overlaps neither box, and
    at a tie.
    """

    detector: Detector
    words: str | None = None
    only_surest: bool = False

    def decide(self, sample: Sample) -> tuple[str, float]:
        boxes = boxes_by_letter(sample)
        words = parse_enclosed(sample) if self.words is None else self.words
        detected = look_once(self.detector, sample.images[0].pixels, [words] if words else None)
        if not len(detected):
            raise NoEvidence(f"the detector finds no {words or 'thing'}")
        finds = detected.xyxy[:1] if self.only_surest else detected.xyxy
        fit = {letter: max(iou(box.xyxy, find) for find in finds) for letter, box in boxes.items()}
        if max(fit.values()) == 0:
            raise NoEvidence(
                f"what the detector finds as {words or 'thing'} overlaps none of the boxes"
            )
        return best_choice(fit, "the overlaps of")


@dataclass(frozen=True)
class ReadText(AnswerRule):
    """Answers with the text in the images, in the order in which `reader` gives its lines, such as
    `PPOCR`.

    `join` stands between lines; "" leaves out spaces inside the lines too. With choices the answer
    is the one whose text is most like what is read (Ratcliff and Obershelp's share of common
    letters, ignoring case), and confidence its lead over the next; without, confidence is the score
    of the least sure line. Abstains where nothing is read.
    """

    reader: Detector
    join: str = " "

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The text or the letter of a choice, and the confidence. Raises NoEvidence."""
        texts = [look_once(self.reader, image.pixels) for image in sample.images]
        lines = [str(text) for boxes in texts for text in boxes.labels]
        if not lines:
            raise NoEvidence("no text is read")
        text = self.join.join(lines) if self.join else "".join("".join(lines).split())
        choices = {
            k: choice
            for k, choice in zip(sample.letters, sample.choices, strict=True)
            if isinstance(choice, str)
        }
        if len(choices) > 1:
            return best_choice(
                {k: _likeness(text, choice) for k, choice in choices.items()}, "choices"
            )
        return text, min(float(boxes.scores.min()) for boxes in texts if len(boxes))


def _likeness(text: str, choice: str) -> float:
    return SequenceMatcher(None, text.casefold(), choice.casefold(), autojunk=False).ratio()


NUMBER = re.compile(r"\d+")
NAMES = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


@dataclass(frozen=True)
class Count(AnswerRule):
    """Answers with the number of objects that the detector finds in all images together.

    What is counted is read from the question ("How many floats are there?") unless `words` says it;
    `words: ""` is for detectors of a fixed class. With choices the answer is the one with this
    number, or with `nearest` the one with the nearest number. Without choices it is the number
    itself. Confidence is the mean score of what was found, halved for each that the choice is off.
    Where nothing is found, `nothing` abstains, or counts as zero.
    """

    detector: Detector
    words: str | None = None
    nearest: bool = True
    nothing: Literal["abstain", "zero"] = "abstain"

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The letter or number, and the confidence. Raises NoEvidence."""
        if not sample.images:
            raise NoEvidence("there is no image to count in")
        words = parse_count(sample) if self.words is None else self.words
        detections = [
            look_once(self.detector, image.pixels, [words] if words else None)
            for image in sample.images
        ]
        number = sum(map(len, detections))
        if number == 0 and self.nothing == "abstain":
            raise NoEvidence(f"the detector finds no {words or 'thing'}")
        sure = sum(float(boxes.scores.sum()) for boxes in detections) / number if number else 0.5
        answer, off = choose_number(sample, number, self.nearest)
        return answer, min(1.0, sure) / 2**off


def choose_number(sample: Sample, number: int, nearest: bool = True) -> tuple[str, int]:
    """The choice with a number, or the nearest to it, and how far off it is; without choices the
    number itself.

    Raises NoEvidence where a choice has no number, where none has this one, and where two are
    equally near.
    """
    if not sample.choices:
        return str(number), 0
    numbers = {
        letter: _number(choice)
        for letter, choice in zip(sample.letters, sample.choices, strict=True)
    }
    differences = {
        letter: abs(value - number) for letter, value in numbers.items() if value is not None
    }
    if len(differences) < len(numbers):
        raise NoEvidence(f"not every choice says a number: {', '.join(map(str, sample.choices))}")
    least = min(differences.values())
    best = [letter for letter, off in differences.items() if off == least]
    if len(best) > 1 or (least and not nearest):
        raise NoEvidence(
            f"{number} are found, and no choice is"
            f" {'nearest to it' if len(best) > 1 else 'that number'}"
        )
    return best[0], least


def _number(choice: object) -> int | None:
    text = str(choice).strip().lower()
    if text in NAMES:
        return NAMES.index(text)
    numbers = NUMBER.findall(text)
    return int(numbers[0]) if len(numbers) == 1 else None
