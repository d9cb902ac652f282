"""Readers that follow the code of the sets' authors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from looktwice.eval.readers.reader import Reading, TextReader
from looktwice.pipelines.sample import Sample

BRACE_PATTERN = re.compile("[{}]")
BOXED_PATTERN = re.compile(r"\\boxed\{")
TAGGED_BOX_PATTERN = re.compile(r"<\|begin_of_box\|>(.*?)<\|end_of_box\|>")


def read_boxed(reply: str) -> str | None:
    r"""Return the content of the last \boxed{...}, including nested braces, or else of the last
    <|begin_of_box|>; None if there is neither.

    Boxes whose braces do not close are ignored; nested boxes belong to the outer one.
    """
    found, place, ends = None, 0, match_braces(reply)
    for box in BOXED_PATTERN.finditer(reply):
        end = ends.get(box.end() - 1)
        if end is not None and box.start() >= place:
            found, place = reply[box.end() : end], end
    if found is not None:
        return found
    tagged = TAGGED_BOX_PATTERN.findall(reply)
    return tagged[-1].strip() if tagged else None


def match_braces(text: str) -> dict[int, int]:
    """Map the position of each opening brace to the position of its closing brace."""
    opened, ends = list[int](), dict[int, int]()
    for brace in BRACE_PATTERN.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            ends[opened.pop()] = brace.start()
    return ends


@dataclass(frozen=True)
class Boxed(TextReader):
    r"""Reads the last \boxed{...} or, without one, the last <|begin_of_box|>...<|end_of_box|>, as
    BabyVision's code does (7f92fd4).

    If the question has choices, only a letter in the box, alone or in brackets, is an answer. A
    reply without a box has no answer: most models that are not told to think write no box.
    """

    def read_text(self, reply: str, sample: Sample) -> Reading:
        text = read_boxed(reply)
        if text is None:
            return Reading(None, "unread: no box")
        if not sample.choices:
            return Reading.from_answer(text.strip())
        bare = re.sub(r"\\text\{(.*?)\}", r"\1", text).strip().strip("().: ")
        letters = "".join(sample.letters)
        return Reading.from_letter(bare if len(bare) == 1 else "", letters)
