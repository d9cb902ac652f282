"""Finds which of the numbered regions a reply names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import iou
from looktwice.pipelines.marks import Box, Mark, Mask, Point, bounding_box
from looktwice.pipelines.model import Model
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.prompting.drawing.regions import find_inner_center

LABEL_PATTERNS = {"numbers": r"\d{1,4}", "letters": r"[A-Z]{1,2}"}
_MARKUP_PATTERN = re.compile(r"[*_`$#]+|\\boxed|\\text")
_REGION_NOUN_REGEX = r"(?i:mark|marker|region|object|segment|mask|box|number|label|option|no\.)"
_DECLARATION_REGEX = (
    r"(?i:answer|choice|mark|region|object|number|it)\s*(?i:is|would be|must be|should"
    r" be|:|=)\s*:?\s*"
)
_NEGATED_PATTERN = re.compile(
    r"\b(?:not|neither|nor|never|except|rather than|instead of)\b|n[’']t\b", re.I
)
_SENTENCE_PATTERN = re.compile(r"(?<=[.!?;])\s+|\n+")


@dataclass(frozen=True)
class ChosenMark(Ranged, WithoutModel):
    """Answers with the region that the last reply names by its number, as
    prompting.markers.SetOfMark drew it.

    `gives`: "label" answers with the number itself. "letter" answers with the letter of the choice
    whose own mark is that region: a lettered point inside it, or the lettered box or mask that
    overlaps it most, by at least `overlap` (intersection over union). "point" answers with the
    pixel "x, y" that lies deepest in the region, and "box" with the box around it, "x0, y0, x1,
    y1"; both in pixels of the source image. `text` is that of SetOfMark. There is no answer (reason
    "unread") if a reply names no region, if it names several without declaring one of them the
    answer, or if the region belongs to no letter or to two.

    Put it after SetOfMark and the call in the pipeline: it needs the marks that SetOfMark adds. It
    never asks the model.
    """

    gives: Literal["label", "letter", "point", "box"] = "label"
    overlap: float = 0.5
    text: Literal["numbers", "letters"] = "numbers"

    ranges = ("overlap > 0", "overlap <= 1")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with its answer, or the reason why there is none. Raises ValueError if
        no region has a number."""
        sample = state.sample
        # the regions labelled with a number (or with capital letters)
        marks: dict[str, Box | Mask] = {}
        for mark in sample.marks:
            if not isinstance(mark, Point) and re.fullmatch(LABEL_PATTERNS[self.text], mark.label):
                marks[mark.label] = mark
        if not marks:
            raise ValueError(
                f"sample {sample.id} has no boxes or masks with {self.text} as labels; put "
                "prompting.markers.SetOfMark before this stage"
            )
        label, answer, why = read_choice(state.reply, list(marks)), None, "no region, or several"
        if label is not None:
            answer = self._format_answer(sample, marks[label])
            why = f"region {label}, which belongs to no letter or to several"
        reason = "" if answer else f"unread: the reply names {why}"
        return state.replace(answer=answer, reason=reason)

    def _format_answer(self, sample: Sample, mark: Box | Mask) -> str | None:
        if self.gives == "label":
            return mark.label
        if self.gives == "letter":
            return self._find_letter(sample, mark)
        values = find_inner_center(mark) if self.gives == "point" else bounding_box(mark)
        return ", ".join(f"{value:g}" for value in values)

    def _find_letter(self, sample: Sample, mark: Box | Mask) -> str | None:
        fits: dict[str, float] = {}
        for own in sample.list_marks_on(mark.image):
            if own.label in sample.letters and own is not mark:
                fits[own.label] = _measure_match(own, mark)
        most = max([self.overlap, *fits.values()])
        best = [letter for letter, fit in fits.items() if fit >= most]
        return best[0] if len(best) == 1 else None


def read_choice(reply: str, labels: Sequence[str]) -> str | None:
    """Return the one label that a reply gives as its answer, or None. These rules apply, in this
    order: a reply that is just a label; the last declaration ("the answer is 7", "Answer: region
    7"); the only label that is called a region, mark, object ...; the only number in the reply, or
    in its last line. Sentences with a negation are ignored, and a declaration of two labels gives
    no answer.
    """
    plain = _MARKUP_PATTERN.sub("", reply).strip()
    token = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    alone = rf"(?<![\w.])(?P<label>{token})(?![\w%]|\.\d)"
    bare = re.fullmatch(rf"\W*(?:{_REGION_NOUN_REGEX}\s*)?\W*(?P<label>{token})\W*", plain)
    if bare:
        return bare["label"]
    affirmed = "\n".join(
        sentence
        for sentence in _SENTENCE_PATTERN.split(plain)
        if not _NEGATED_PATTERN.search(sentence)
    )
    declared = list(
        re.finditer(
            rf"{_DECLARATION_REGEX}(?i:the\s+)?(?:{_REGION_NOUN_REGEX}\s*)?[\"'“(\[{{#]*{alone}",
            affirmed,
        )
    )
    if declared:
        several = re.match(
            rf"[\])}}\"'”]*\s*(?:,|/|&|and|or)\s*(?:{_REGION_NOUN_REGEX}\s*)?[(\[]?(?:{token})\b",
            affirmed[declared[-1].end() :],
        )
        return None if several else declared[-1]["label"]
    return _find_only_label(affirmed, alone)


def _find_only_label(affirmed: str, alone: str) -> str | None:
    with_noun: set[str] = {
        match["label"]
        for match in re.finditer(rf"\b{_REGION_NOUN_REGEX}s?\s*[\"'“(\[#]*{alone}", affirmed)
    }
    if len(with_noun) == 1:
        return with_noun.pop()
    lines = [line for line in affirmed.splitlines() if line.strip()]
    for text in (affirmed, lines[-1] if lines else ""):
        numbers: set[str] = set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)) | set(
            re.findall(r"[(\[]([A-Z]{1,2})[)\]]", text)
        )
        named = {match["label"] for match in re.finditer(alone, text)}
        if len(numbers) == 1 and numbers <= named:
            return numbers.pop()
    return None


def _measure_match(mark: Mark, region: Box | Mask) -> float:
    """Return how well a mark of the sample matches this region: 1 or 0 for a point inside or
    outside it, otherwise intersection over union."""
    if isinstance(mark, Point):
        x, y = mark.center
        if isinstance(region, Box):
            return float(region.x0 <= x + 0.5 < region.x1 and region.y0 <= y + 0.5 < region.y1)
        (height, width), row, column = region.pixels.shape, round(y), round(x)
        return float(0 <= row < height and 0 <= column < width and region.pixels[row, column])
    if isinstance(mark, Box) and isinstance(region, Box):
        return iou(mark.xyxy, region.xyxy)
    shape = next((m.pixels.shape for m in (mark, region) if isinstance(m, Mask)), (1, 1))
    first, second = _rasterize(mark, shape), _rasterize(region, shape)
    return float((first & second).sum() / max(1, (first | second).sum()))


def _rasterize(mark: Box | Mask, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if isinstance(mark, Mask):
        return mark.pixels
    filled = np.zeros(shape, bool)
    filled[round(mark.y0) : round(mark.y1), round(mark.x0) : round(mark.x1)] = True
    return filled
