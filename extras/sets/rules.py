"""The rules by which authors and toolkits parse the replies to sets of 2025 and 2026; each rule
reproduces their parsing errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.verdict import Metric, PointScores, Score, ScoredRecord
from looktwice.extras.toolkits.scorer import BenchmarkScorer
from looktwice.pipelines.json_input import read_json

ANSWER_LINE_PATTERN = re.compile(r"Answer\s*:\s*([A-D])\b", re.I)
DECIMAL_PATTERN = re.compile(r"-?(?:\d+\.\d+|\d+|\.\d+)")
BIASED_ANSWER_FIELD = "expected_bias"
"""The truth field with the answer of a biased model."""


def read_answer_line(reply: str) -> str:
    """Return the last letter after "Answer:", unchanged, and A for a reply without one
    (OmniSpatial, 208bac2): "answer: b" gives "b", which is never a correct answer."""
    return next(reversed(ANSWER_LINE_PATTERN.findall(reply)), "A")


def read_json_letter(reply: str) -> str:
    """Return the first capital letter in the field "answer" of a JSON reply, and A for any other
    reply (OmniSpatial, 208bac2)."""
    text = reply.strip().removeprefix("```json").removesuffix("```").strip()
    try:
        value = read_json(text)
    except ValueError:
        return "A"
    answer = value.get("answer", "A") if isinstance(value, dict) else "A"
    return answer.strip().upper()[:1] if isinstance(answer, str) else "A"


def read_first_character(reply: str) -> str:
    """Return the first character as a capital (OmniSpatial, 208bac2): "The answer is B" gives T."""
    return reply.strip().upper()[:1]


def read_before_bracket(reply: str) -> str:
    """Return the text before the first closing bracket (VisRes in lmms-eval, 75571cf): "(B)" gives
    "(B", which is never a correct answer."""
    return reply.partition(")")[0]


def _is_key(reply: str, row: SampleRow) -> bool:
    """Return whether the whole reply equals the key, ignoring case (ERQA in VLMEvalKit, e8e78f0):
    "B." is wrong."""
    return reply.strip().lower() == (row.answer or "").strip().lower()


def is_biased_match(reply: str, key: str) -> bool:
    """Return whether reply and key are equal, ignoring case and braces, or whether their joined
    digits are equal (VLMs Are Biased in lmms-eval, 75571cf): "4 or 5" counts as 45."""
    texts = [text.strip().lower().strip("{}").strip() for text in (reply, key)]
    digits = ["".join(filter(str.isdigit, text)) for text in texts]
    return texts[0] == texts[1] or (digits[0] == digits[1] != "")


def score_biased(reply: str, key: str, bias: str) -> tuple[bool, bool]:
    """Return whether a reply matches the key, and whether it matches the answer of a biased model
    (VLMs Are Biased in lmms-eval, 75571cf); digits are compared only if neither text matches."""
    plain = reply.strip().lower().strip("{}").strip()
    same = [plain == text.strip().lower().strip("{}").strip() for text in (key, bias)]
    if any(same):
        return same[0], same[1]
    return is_biased_match(reply, key), is_biased_match(reply, bias)


def is_exact_match(reply: str, key: str) -> bool:
    """Return whether reply and key are the same number, or the same text, ignoring case, quotes and
    a full stop (ZeroBench in lmms-eval, 75571cf)."""
    texts = [re.sub(r"\s+", " ", text.strip().lower().strip("\"'`")) for text in (reply, key)]
    texts = [text[:-1].rstrip() if text.endswith(".") else text for text in texts]
    numbers = [text.strip().replace(",", "") for text in texts]
    if all(map(DECIMAL_PATTERN.fullmatch, numbers)):
        return Decimal(numbers[0]) == Decimal(numbers[1])
    return texts[0] == texts[1]


def _score_biased(reply: str, row: SampleRow) -> bool:
    return score_biased(reply, row.answer or "", str(row.truth.get(BIASED_ANSWER_FIELD, "")))[0]


def _make_rule(read: Callable[[str], str]) -> Callable[[str, SampleRow], bool]:
    return lambda reply, row: read(reply) == row.answer


RULES: Mapping[str, Callable[[str, SampleRow], bool]] = {
    "omni_spatial": _make_rule(read_answer_line),
    "omni_spatial_direct": _make_rule(read_first_character),
    "omni_spatial_json": _make_rule(read_json_letter),
    "erqa_vlmevalkit": _is_key,
    "vis_res": _make_rule(read_before_bracket),
    "vlm_bias": _score_biased,
    "zero_bench": lambda reply, row: is_exact_match(reply, row.answer or ""),
}
"""The functions that decide whether a reply is right, by name of the rule."""


@dataclass(frozen=True)
class SetScorer(BenchmarkScorer):
    """A `BenchmarkScorer` with the rules of more sets, for `read: {use: eval.readers.WholeReply}`.

    `rule` is "omni_spatial" (the last "Answer: X", else A), "omni_spatial_direct" (the first
    character), "omni_spatial_json", "erqa_vlmevalkit" (the whole reply), "vis_res" (what precedes
    the first closing bracket), "vlm_bias", "zero_bench" (the same number or text), or empty:
    answers are compared as for any task. With "vlm_bias" the truth field `expected_bias` gives
    `bias_rate`, the share of replies with the answer that a biased model gives. The other settings
    are those of `eval.scoring.BenchmarkScorer`. Raises ValueError for an unknown rule.
    """

    def __post_init__(self) -> None:
        if self.rule and self.rule not in RULES:
            raise ValueError(
                f"`rule` must be empty or one of {', '.join(RULES)}, got {self.rule!r}"
            )

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """Score the reply by the rule; return None if the rule is empty."""
        return Score.of(RULES[self.rule](answer, row)) if self.rule else None

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the metrics that the settings name, and `bias_rate`."""
        metrics = [*super().metrics(scores)]
        if self.rule == "vlm_bias":
            units = scores.means(lambda draw: self._measure_bias(draw, scores.samples[draw.sample]))
            metrics += [Metric("bias_rate", units, clusters=scores.clusters)] if units else []
        return metrics

    def _measure_bias(self, draw: ScoredRecord, row: SampleRow) -> float | None:
        if draw.answer is None or BIASED_ANSWER_FIELD not in row.truth:
            return None
        return float(
            score_biased(draw.answer, row.answer or "", str(row.truth[BIASED_ANSWER_FIELD]))[1]
        )
