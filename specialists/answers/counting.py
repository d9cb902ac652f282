"""How many objects there are, by the boxes of a detector."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule
from looktwice.specialists.answers.question_parsing import parse_count
from looktwice.specialists.protocols import Detector, NoEvidence
from looktwice.specialists.sharing import look_once

NUMBER = re.compile(r"\d+")
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Count(AnswerRule):
    """Answers with the number of objects that the detector finds in all images together.

    What is counted is read from the question ("How many floats are there?") unless `words` says it; `words: ""` is for
    detectors of a fixed class. With choices the answer is the one with this number, or with `nearest` the one with the
    nearest number. Without choices it is the number itself. Confidence is the mean score of what was found, halved for
    each that the choice is off. Where nothing is found, `nothing` abstains, or counts as zero.
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
        found = [look_once(self.detector, image.pixels, [words] if words else None) for image in sample.images]
        number = sum(map(len, found))
        if number == 0 and self.nothing == "abstain":
            raise NoEvidence(f"the detector finds no {words or 'thing'}")
        sure = sum(float(boxes.scores.sum()) for boxes in found) / number if number else 0.5
        answer, off = choose_number(sample, number, self.nearest)
        return answer, min(1.0, sure) / 2**off


def choose_number(sample: Sample, number: int, nearest: bool = True) -> tuple[str, int]:
    """The choice with a number, or the nearest to it, and how far off it is; without choices the number itself.

    Raises NoEvidence where a choice has no number, where none has this one, and where two are equally near.
    """
    if not sample.choices:
        return str(number), 0
    said = {letter: _number(choice) for letter, choice in zip(sample.letters, sample.choices, strict=True)}
    differences = {letter: abs(value - number) for letter, value in said.items() if value is not None}
    if len(differences) < len(said):
        raise NoEvidence(f"not every choice says a number: {', '.join(map(str, sample.choices))}")
    least = min(differences.values())
    best = [letter for letter, off in differences.items() if off == least]
    if len(best) > 1 or (least and not nearest):
        raise NoEvidence(f"{number} are found, and no choice is {'nearest to it' if len(best) > 1 else 'that number'}")
    return best[0], least


def _number(choice: object) -> int | None:
    text = str(choice).strip().lower()
    if text in NAMES:
        return NAMES.index(text)
    found = NUMBER.findall(text)
    return int(found[0]) if len(found) == 1 else None
