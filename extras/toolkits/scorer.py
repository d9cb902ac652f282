"""The published metrics of tabular benchmarks, as settings of one scorer: a rule for replies,
groups that must be right as a whole, means of means, and boxes.

The rules that compare whole replies with correct answers follow the code of the benchmarks' authors
and of VLMEvalKit (e8e78f05, 2026-08-18); each rule reproduces their parsing errors.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isclose, prod
from statistics import fmean

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.groups import compute_group_metric, group_by
from looktwice.eval.scoring.metrics import accuracy
from looktwice.eval.scoring.verdict import Levels, Metric, PointScores, Samples, Score, Scorer
from looktwice.pipelines.geometry import iou

YES_NO_KEYS = {"1": "yes", "0": "no"}
SPACED_PUNCTUATION_PATTERN = re.compile(r"""[;/\[\]"{}()=+\\_\-><@`,?!]""")
NUMBER_COMMA_PATTERN = re.compile(r"\d,\d")
PERIOD_PATTERN = re.compile(r"\.(?!\d)")
BOX_PATTERN = re.compile(r"<box>\s*\[(\d+),(\d+),(\d+),(\d+)\].*?</box>", re.S)
ANSWER_PREFIXES = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option is",
    "The correct option is",
)
BRACED_TASKS = frozenset(
    ("Subway Connections", "Nested Squares", "Line Plot Intersections", "Circled Letter")
)
MAX_LETTER_WORDS = 10  # a longer reply (in words) without a capital A to E has no letter
Box = Sequence[float]


def read_first_word(reply: str, words: tuple[str, str]) -> str:
    """Return the one of two words that occurs first as a whole word, ignoring case; "" if neither
    occurs (NaturalBench)."""
    word = re.search(rf"\b(?:{'|'.join(words)})\b", reply, re.I)
    return word[0].lower() if word else ""


def read_yes_or_no(reply: str) -> str:
    """Return "yes" or "no" if exactly one of them is among the words, else ""; "**Yes**" counts as
    neither (VLMEvalKit)."""
    text = reply.lower()
    for mark in dict.fromkeys(SPACED_PUNCTUATION_PATTERN.findall(text)):
        touches = f"{mark} " in text or f" {mark}" in text or NUMBER_COMMA_PATTERN.search(text)
        text = text.replace(mark, "" if touches else " ")
    answers = {"yes", "no"} & {*PERIOD_PATTERN.sub("", text).split()}
    return answers.pop() if len(answers) == 1 else ""


def read_first_letter(reply: str) -> str:
    """Return the first capital A to E after removing prefixes such as "The answer is", and A for an
    empty reply (TreeBench in VLMEvalKit)."""
    text = reply.strip()
    for lead in ANSWER_PREFIXES:
        text = text.replace(lead, "")
    letter = re.search("[A-E]", text)
    if letter or len(text.split()) > MAX_LETTER_WORDS:
        return letter[0] if letter else ""
    return next((name for name in "ABCDE" if text.lower() in f"({name})".lower()), "")


def read_braces(reply: str) -> str:
    """Return the content of the first braces, including white space; "" if there are none
    (VLMsAreBlind)."""
    inner = re.search(r"\{(.*?)\}", reply)
    return inner[1] if inner else ""


def read_rows_and_columns(reply: str) -> tuple[int, ...]:
    """Return the numbers of rows and columns in "rows={4} columns={5}", in either order, or else
    those in the first "(4, 5)"."""
    rows = re.search(r"[Rr]ows?[^{}]*\{(\d+)\}", reply)
    columns = re.search(r"[Cc]olumns?[^{}]*\{(\d+)\}", reply)
    pair = re.search(r"\((\d+),\s*(\d+)\)", reply)
    if rows and columns:
        return int(rows[1]), int(columns[1])
    return (int(pair[1]), int(pair[2])) if pair else ()


def compute_mean_best_iou(reply: str, targets: Sequence[Box]) -> float:
    """Compute the mean over the target boxes of the best IoU with any box of a reply, written
    `<box>[x1,y1,x2,y2]</box>` within its `<think>`, or anywhere if it has no `<think>` (TreeBench).

    Boxes with a space between their numbers, with fractions or without area are ignored. Surplus
    boxes are not penalised. Without targets the value is 1 for a reply with a box, else 0.
    """
    thought = re.search(r"<think>(.*?)</think>", reply, re.S)
    boxes = []
    for numbers in BOX_PATTERN.findall(thought[1] if thought else reply):
        left, top, right, bottom = map(int, numbers)
        if left < right and top < bottom:
            boxes.append((left, top, right, bottom))
    if not targets or not boxes:
        return float(bool(boxes))
    best = []
    for x0, y0, x1, y1 in targets:
        best.append(max(iou(box, (x0, y0, x1, y1)) for box in boxes))
    return sum(best) / len(best)


def _score_natural_bench(reply: str, row: SampleRow) -> bool:
    letters = (row.answer or "").upper() in ("A", "B")
    return read_first_word(reply, ("a", "b") if letters else ("yes", "no")) == normalize_key(row)


def _score_tree_bench(reply: str, row: SampleRow) -> bool:
    answer = re.search(r"<answer>(.*?)</answer>", reply, re.S)
    return (answer[1] if answer else reply).strip().upper() == row.answer


def _score_vlms_are_blind(reply: str, row: SampleRow) -> bool:
    task, key = str(row.meta.get("task", "")), row.answer or ""
    if task.startswith("Counting Grid"):
        return read_rows_and_columns(reply) == tuple(map(int, re.findall(r"\d+", key)))
    return read_braces(reply) == key if task in BRACED_TASKS else key.lower() in reply.lower()


def _score_vp_bench(reply: str, row: SampleRow) -> bool:
    """Return whether the first letter A to D, in any word and case, is the correct answer:
    "Answer: D" counts as A (VP-Bench's code of 2025-12)."""
    letter = re.search("[A-D]", reply.upper())
    return (letter[0] if letter else "") == row.answer


def normalize_key(row: SampleRow) -> str:
    """Return the correct answer in lower case; yes and no replace 1 and 0."""
    key = (row.answer or "").lower()
    return YES_NO_KEYS.get(key, key)


RULES: Mapping[str, Callable[[str, SampleRow], bool]] = {
    "natural_bench": _score_natural_bench,
    "yes_or_no": lambda reply, row: read_yes_or_no(reply) == normalize_key(row),
    "tree_bench": _score_tree_bench,
    "tree_bench_vlmevalkit": lambda reply, row: read_first_letter(reply) == row.answer,
    "vlms_are_blind": _score_vlms_are_blind,
    "vp_bench": _score_vp_bench,
}
"""The functions that decide whether a reply is right, by name of the rule."""

MEAN_METRIC = "mean_accuracy"


@dataclass(frozen=True)
class BenchmarkScorer(Scorer):
    """A scorer of tabular benchmarks by the rules of their authors' code or of VLMEvalKit.

    `all_right` maps names of metrics to meta fields: the metric is the share of groups (samples
    with the same values of these fields) that are right as a whole. `mean_of` lists meta fields
    from the outermost to the innermost: `mean_accuracy` is the mean over the values of the first
    field of the mean over those of the second, and so on; it is also reported for each value of the
    first field. `rule` compares whole replies, with `read: {use: eval.readers.WholeReply}`:
    "natural_bench", "read_yes_or_no" (VLMEvalKit's HallusionBench), "tree_bench",
    "tree_bench_vlmevalkit", "vlms_are_blind" or "vp_bench"; if it is empty, answers are compared as
    for any task. `boxes` is the truth field that holds the target boxes as text, for `box_iou`: the
    mean of each target's best IoU with the boxes in the whole reply. `headlines` are the metrics
    that tables show first; null shows every metric over a whole task. Raises ValueError for an
    unknown rule.
    """

    all_right: Mapping[str, Sequence[str]] = field(default_factory=dict)
    mean_of: tuple[str, ...] = ()
    rule: str = ""
    boxes: str = ""
    headlines: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.rule and self.rule not in RULES:
            raise ValueError(
                f"`rule` must be empty or one of {', '.join(RULES)}, got {self.rule!r}"
            )

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """Score the reply by the rule; return None if the rule is empty."""
        if not self.rule:
            return None
        return Score.of(RULES[self.rule](answer, row))

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the metrics that the settings name and whose fields the samples have."""
        metrics = list[Metric]()
        for name, fields in self.all_right.items():
            if groups := group_by(scores.keyed_samples, *fields):
                metrics.append(compute_group_metric(name, fields[-1], scores, groups))
        if self.mean_of:
            metrics += self._list_means(scores)
        if self.boxes:
            units = scores.means(
                lambda draw: self._measure_iou(draw.answer, scores.samples[draw.sample])
            )
            metrics += [Metric("box_iou", units, clusters=scores.clusters)] if units else []
        return metrics

    def chance(self, samples: Samples) -> Levels:
        """Return the chance levels of guessing among the choices; empty if a question has none."""
        if not samples or not all(row.n_choices for row in samples.values()):
            return {}
        guessed = {name: 1 / row.n_choices for name, row in samples.items()}
        levels = {}
        for metric, fields in self.all_right.items():
            if groups := group_by(samples, *fields):
                levels[metric] = fmean(
                    prod(guessed[name] for name in members) for members in groups.values()
                )
        if self.mean_of and (counted := self._select_counted(samples)):
            values = {name: guessed[name] for name in counted}
            levels[MEAN_METRIC] = compute_mean_of_means(values, samples, self.mean_of)
        return levels

    def _list_means(self, scores: PointScores) -> Iterator[Metric]:
        counted = self._select_counted(scores.keyed_samples)
        values = {name: worth for name, worth in accuracy(scores).items() if name in counted}
        if not values:
            return
        yield _make_mean_metric(values, scores, self.mean_of)
        outer, *inner = self.mean_of
        parts = group_by({name: scores.keyed_samples[name] for name in values}, outer)
        for part, members in parts.items():
            worth = {name: values[name] for name in members}
            yield _make_mean_metric(worth, scores, inner, f"{outer}={part}")

    def _select_counted(self, samples: Samples) -> set[str]:
        """Return the samples that have all fields of the mean."""
        return {*chain.from_iterable(group_by(samples, *self.mean_of).values())}

    def _measure_iou(self, reply: str | None, row: SampleRow) -> float | None:
        """Return the mean best IoU of a reply; None for a bare letter, which a reader extracted, so
        that the boxes are lost."""
        if reply is not None and len(reply) == 1:
            return None
        return compute_mean_best_iou(
            reply or "", literal_eval(str(row.truth.get(self.boxes) or "[]"))
        )


def _make_mean_metric(
    values: Mapping[str, float], scores: PointScores, fields: Sequence[str], part: str = ""
) -> Metric:
    """Return the mean of means as a metric. If it equals the plain mean (parts of equal size), do
    not set the metric's value, so that the metric gets an interval."""
    mean = compute_mean_of_means(values, scores.keyed_samples, fields)
    own = None if isclose(mean, fmean(values.values())) else mean
    failed = frozenset(values.keys() - scores.comparable_values.keys())
    return Metric(MEAN_METRIC, values, "sample", failed, own, part, clusters=scores.clusters)


def compute_mean_of_means(
    values: Mapping[str, float], samples: Samples, fields: Sequence[str]
) -> float:
    """Compute nested means: over the values of the first field, the mean over those of the second,
    and so on. Every sample must have every field.
    """
    if not fields:
        return fmean(values.values())
    parts = group_by({name: samples[name] for name in values}, fields[0])
    means = []
    for members in parts.values():
        means.append(
            compute_mean_of_means({name: values[name] for name in members}, samples, fields[1:])
        )
    return fmean(means)
