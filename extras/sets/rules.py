"""The rules by which authors and toolkits read the replies to sets of 2025 and 2026; their
misreadings are part of each rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.benchmark import BenchmarkScorer
from looktwice.eval.scoring.verdict import Score
from looktwice.pipelines.json_input import read_json

ANSWER_LINE = re.compile(r"Answer\s*:\s*([A-D])\b", re.I)
POINT_NAME = re.compile(r"point\s*([12])")


def read_answer_line(reply: str) -> str:
    """Return the last letter after "Answer:" as it is written, and A for a reply without one
    (OmniSpatial, 208bac2): "answer: b" is "b", which is no key."""
    return next(reversed(ANSWER_LINE.findall(reply)), "A")


def read_json_letter(reply: str) -> str:
    """Return the first capital of "answer" in a JSON reply, and A for anything else (OmniSpatial,
    208bac2)."""
    text = reply.strip().removeprefix("```json").removesuffix("```").strip()
    try:
        value = read_json(text)
    except ValueError:
        return "A"
    answer = value.get("answer", "A") if isinstance(value, dict) else "A"
    return answer.strip().upper()[:1] if isinstance(answer, str) else "A"


def read_first_character(reply: str) -> str:
    """Return the first character as a capital (OmniSpatial, 208bac2): "The answer is B" is T."""
    return reply.strip().upper()[:1]


def read_before_bracket(reply: str) -> str:
    """Return what precedes the first closing bracket (VisRes in lmms-eval, 75571cf): "(B)" is "(B",
    which is no key."""
    return reply.partition(")")[0]


def _score_same(reply: str, row: SampleRow) -> bool:
    """Return whether the whole reply is the key, ignoring case (ERQA in VLMEvalKit, e8e78f0): "B."
    is wrong."""
    return reply.strip().lower() == (row.answer or "").strip().lower()


def _by(read: Callable[[str], str]) -> Callable[[str, SampleRow], bool]:
    return lambda reply, row: read(reply) == row.answer


RULES: Mapping[str, Callable[[str, SampleRow], bool]] = {
    "omni_spatial": _by(read_answer_line),
    "omni_spatial_direct": _by(read_first_character),
    "omni_spatial_json": _by(read_json_letter),
    "erqa_vlmevalkit": _score_same,
    "vis_res": _by(read_before_bracket),
}
"""The functions that decide whether a reply is right, by name of the rule."""


@dataclass(frozen=True)
class SetScorer(BenchmarkScorer):
    """`BenchmarkScorer` with the rules of more sets, for `read: {use: eval.readers.WholeReply}`.

    `rule` is "omni_spatial" (the last "Answer: X", else A), "omni_spatial_direct" (the first
    character), "omni_spatial_json", "erqa_vlmevalkit" (the whole reply), "vis_res" (what precedes
    the first closing bracket), or empty: answers are compared as for any task. The other settings
    are those of `eval.scoring.BenchmarkScorer`. Raises ValueError for an unknown rule.
    """

    def __post_init__(self) -> None:
        if self.rule and self.rule not in RULES:
            raise ValueError(
                f"`rule` must be empty or one of {', '.join(RULES)}, got {self.rule!r}"
            )

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """Compare by the rule; return None if there is none."""
        return Score.of(RULES[self.rule](answer, row)) if self.rule else None
