"""Which colour a marked place has, among choices that name colours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import ImageColor

from looktwice.pipelines.marks import Mark
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, best_choice, check_window
from looktwice.specialists.protocols import NoEvidence


@dataclass(frozen=True)
class ColorAtMark(AnswerRule):
    """Answers with the choice that names the colour at the middle of the one mark of image 0.

    The place has the median colour of the `window` x `window` pixels around it; the choices, such as "red" or "light
    blue", are read as CSS names; the nearest by CIEDE2000 is the answer, its confidence the lead over the next as a
    share of the larger distance. Abstains where there is not one mark, where a choice names no colour, and at a tie.
    """

    window: int = 5

    def __post_init__(self) -> None:
        check_window(self.window)

    def decide(self, sample: Sample) -> tuple[str, float]:
        from skimage.color import deltaE_ciede2000

        marks = sample.on(0)
        if len(marks) != 1:
            raise NoEvidence(f"the colour at one mark is asked for, and image 0 has {len(marks)}")
        seen = _lab(self._around(sample, marks[0]))
        far = {
            letter: float(deltaE_ciede2000(seen, _lab(_named(choice))))  # type: ignore[no-untyped-call]
            for letter, choice in zip(sample.letters, sample.choices, strict=True)
        }
        if len(far) < 2:
            raise NoEvidence(f"{len(far)} choices name colours, and 2 or more are compared")
        letter, lead = best_choice({letter: -distance for letter, distance in far.items()}, "the colours of")
        return letter, lead / (far[letter] + lead)

    def _around(self, sample: Sample, mark: Mark) -> NDArray[np.uint8]:
        pixels, half = sample.images[0].pixels, self.window // 2
        x, y = mark.center
        column, row = round(x), round(y)
        patch = pixels[max(0, row - half) : row + half + 1, max(0, column - half) : column + half + 1]
        if not (0 <= row < pixels.shape[0] and 0 <= column < pixels.shape[1]):
            raise NoEvidence(f"mark {mark.label} at ({x:g}, {y:g}) lies outside image 0")
        return np.asarray(np.median(patch.reshape(-1, 3), axis=0), np.uint8)


def _named(choice: object) -> NDArray[np.uint8]:
    try:
        return np.array(ImageColor.getrgb(str(choice).strip(" .").replace(" ", ""))[:3], np.uint8)
    except (ValueError, OverflowError):
        raise NoEvidence(f"the choice {str(choice)!r} names no colour of CSS") from None


def _lab(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    from skimage.color import rgb2lab

    return np.asarray(rgb2lab(rgb / 255), np.float64)
