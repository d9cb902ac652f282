"""Maps the number in a reply to its region, and the region to an answer."""

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
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.prompting.drawing.shapes import inner_center
from looktwice.prompting.ranges import check_ranges

LABELS = {"numbers": r"\d{1,4}", "letters": r"[A-Z]{1,2}"}
_MARKUP = re.compile(r"[*_`$#]+|\\boxed|\\text")
_NOUN = r"(?i:mark|marker|region|object|segment|mask|box|number|label|option|no\.)"
_DECLARED = (
    r"(?i:answer|choice|mark|region|object|number|it)\s*(?i:is|would be|must be|should"
    r" be|:|=)\s*:?\s*"
)
_NEGATED = re.compile(r"\b(?:not|neither|nor|never|except|rather than|instead of)\b|n[’']t\b", re.I)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")


@dataclass(frozen=True)
class ChosenMark(WithoutModel):
    """Answers with the region that the last reply names by its number, as
    prompting.markers.SetOfMark drew them.

    `gives`: "label" answers the number itself; "letter" the letter of the choice whose own mark is
    that region: a lettered point that lies in it, or a lettered box or mask that it overlaps most,
    by at least `overlap` (intersection over union); "point" the pixel "x, y" that lies deepest in
    it; "box" the box around it, "x0, y0, x1, y1"; both in pixels of the source image. `text` is
    SetOfMark's. Where a reply names no region, or several without declaring one, or the region is
    that of no letter or of two, there is no answer (reason "unread").

    Stands behind SetOfMark and the call in the pipeline: it needs the marks that SetOfMark leaves.
    It never asks.
    """

    gives: Literal["label", "letter", "point", "box"] = "label"
    overlap: float = 0.5
    text: Literal["numbers", "letters"] = "numbers"

    def __post_init__(self) -> None:
        check_ranges(self, "overlap > 0", "overlap <= 1")

    def __call__(self, state: State, model: Model) -> State:
        """The state with its answer, or the reason why there is none. Raises ValueError where no
        mark is numbered."""
        marks = {mark.label: mark for mark in numbered_regions(state.sample, self.text)}
        if not marks:
            raise ValueError(
                f"sample {state.sample.id} has no boxes or masks with {self.text} for labels; put "
                "prompting.markers.SetOfMark before this stage"
            )
        label = read_choice(state.reply, list(marks))
        answer = self._given(state.sample, marks[label]) if label is not None else None
        why = (
            "no region, or several"
            if label is None
            else f"region {label}, which is that of no letter or of several"
        )
        return state.replace(
            answer=answer, reason="" if answer else f"unread: the reply names {why}"
        )

    def _given(self, sample: Sample, mark: Box | Mask) -> str | None:
        if self.gives == "label":
            return mark.label
        if self.gives == "letter":
            return self._letter(sample, mark)
        if self.gives == "point":
            return ", ".join(f"{value:g}" for value in inner_center(mark))
        return ", ".join(f"{value:g}" for value in bounding_box(mark))

    def _letter(self, sample: Sample, mark: Box | Mask) -> str | None:
        own = [m for m in sample.on(mark.image) if m.label in sample.letters and m is not mark]
        fits = {m.label: _match(m, mark) for m in own}
        kept = {letter: fit for letter, fit in fits.items() if fit >= self.overlap}
        best = [letter for letter, fit in kept.items() if fit == max(kept.values())]
        return best[0] if len(best) == 1 else None


def numbered_regions(sample: Sample, text: str = "numbers") -> list[Box | Mask]:
    """The regions among a sample's marks that have a number (or capital letters) for a label."""
    regions = (mark for mark in sample.marks if not isinstance(mark, Point))
    return [mark for mark in regions if re.fullmatch(LABELS[text], mark.label)]


def read_choice(reply: str, labels: Sequence[str]) -> str | None:
    """The one label that a reply gives as its answer, or None.

    In this order: a reply that is a label and nothing more; the last declaration ("the answer is
    7", "Answer: region 7"); the only label that is called a region, mark, object ...; the only
    number of the reply, or of its last line. Sentences that negate are not looked at, and a
    declaration of two is none.
    """
    plain = _MARKUP.sub("", reply).strip()
    token = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    alone = rf"(?<![\w.])(?P<label>{token})(?![\w%]|\.\d)"
    bare = re.fullmatch(rf"\W*(?:{_NOUN}\s*)?\W*(?P<label>{token})\W*", plain)
    if bare:
        return bare["label"]
    spoken = "\n".join(
        sentence for sentence in _SENTENCE.split(plain) if not _NEGATED.search(sentence)
    )
    declared = list(
        re.finditer(rf"{_DECLARED}(?i:the\s+)?(?:{_NOUN}\s*)?[\"'“(\[{{#]*{alone}", spoken)
    )
    if declared:
        several = re.match(
            rf"[\])}}\"'”]*\s*(?:,|/|&|and|or)\s*(?:{_NOUN}\s*)?[(\[]?(?:{token})\b",
            spoken[declared[-1].end() :],
        )
        return None if several else declared[-1]["label"]
    return _only_label(spoken, alone)


def _only_label(spoken: str, alone: str) -> str | None:
    nouned: set[str] = {
        match["label"] for match in re.finditer(rf"\b{_NOUN}s?\s*[\"'“(\[#]*{alone}", spoken)
    }
    if len(nouned) == 1:
        return nouned.pop()
    lines = [line for line in spoken.splitlines() if line.strip()]
    for text in (spoken, lines[-1] if lines else ""):
        numbers: set[str] = set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)) | set(
            re.findall(r"[(\[]([A-Z]{1,2})[)\]]", text)
        )
        named = {match["label"] for match in re.finditer(alone, text)}
        if len(numbers) == 1 and numbers <= named:
            return numbers.pop()
    return None


def _match(mark: Mark, region: Box | Mask) -> float:
    """How well a mark of the sample is this region: whether a point lies in it, else intersection
    over union."""
    if isinstance(mark, Point):
        x, y = mark.center
        if isinstance(region, Box):
            return float(region.x0 <= x + 0.5 < region.x1 and region.y0 <= y + 0.5 < region.y1)
        (height, width), row, column = region.pixels.shape, round(y), round(x)
        return float(0 <= row < height and 0 <= column < width and region.pixels[row, column])
    if isinstance(mark, Box) and isinstance(region, Box):
        return iou(mark.xyxy, region.xyxy)
    shape = (
        mark.pixels.shape
        if isinstance(mark, Mask)
        else region.pixels.shape
        if isinstance(region, Mask)
        else (1, 1)
    )
    first, second = _as_pixels(mark, shape), _as_pixels(region, shape)
    return float(np.count_nonzero(first & second)) / max(
        1.0, float(np.count_nonzero(first | second))
    )


def _as_pixels(mark: Box | Mask, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if isinstance(mark, Mask):
        return mark.pixels
    filled = np.zeros(shape, bool)
    filled[round(mark.y0) : round(mark.y1), round(mark.x0) : round(mark.x1)] = True
    return filled
