"""What a text in the image says, by the lines that a detector of text reads."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, best_choice
from looktwice.specialists.protocols import Detector, NoEvidence
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class ReadText(AnswerRule):
    """Answers with the text in the images, in the order in which `reader` gives its lines, such as `PPOCR`.

    `join` stands between lines; "" leaves out spaces inside the lines too. With choices the answer is the one whose
    text is most like what is read (Ratcliff and Obershelp's share of common letters, ignoring case), and confidence its
    lead over the next; without, confidence is the score of the least sure line. Abstains where nothing is read.
    """

    reader: Detector
    join: str = " "

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The text or the letter of a choice, and the confidence. Raises NoEvidence."""
        found = [look_once(self.reader, image.pixels) for image in sample.images]
        lines = [str(text) for boxes in found for text in boxes.labels]
        if not lines:
            raise NoEvidence("no text is read")
        text = self.join.join(lines) if self.join else "".join("".join(lines).split())
        choices = {
            k: choice for k, choice in zip(sample.letters, sample.choices, strict=True) if isinstance(choice, str)
        }
        if len(choices) > 1:
            return best_choice({k: _likeness(text, choice) for k, choice in choices.items()}, "choices")
        return text, min(float(boxes.scores.min()) for boxes in found if len(boxes))


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one.casefold(), other.casefold(), autojunk=False).ratio()
