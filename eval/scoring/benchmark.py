"""The metrics by which benchmarks of tables are quoted, told as settings of one scorer: a rule for
replies, groups that are right as a whole, means of means, and boxes.

The rules by which they compare whole replies with keys are read from the code of their authors and
of VLMEvalKit (e8e78f05, 2026-08-18); what each of them misreads is part of the rule."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isclose, prod
from statistics import fmean

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.metrics import accuracy, group_by, group_metric
from looktwice.eval.scoring.verdict import Levels, Metric, PointScores, Samples, Score, Scorer
from looktwice.pipelines.geometry import iou

KEYS = {"1": "yes", "0": "no"}
PARTED = re.compile(r"""[;/\[\]"{}()=+\\_\-><@`,?!]""")
NUMBER_COMMA = re.compile(r"\d,\d")
PERIOD = re.compile(r"\.(?!\d)")
BOX = re.compile(r"<box>\s*\[(\d+),(\d+),(\d+),(\d+)\].*?</box>", re.S)
LEADS = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option is",
    "The correct option is",
)
BRACED = frozenset(
    ("Subway Connections", "Nested Squares", "Line Plot Intersections", "Circled Letter")
)
WORDY = 10  # a reply of more words without a capital A to E has no letter
Box = Sequence[float]


def first_word(reply: str, words: tuple[str, str]) -> str:
    """The word of the two that comes first as a whole word, in whatever case; empty for neither
    (NaturalBench)."""
    word = re.search(rf"\b(?:{'|'.join(words)})\b", reply, re.I)
    return word[0].lower() if word else ""


def yes_or_no(reply: str) -> str:
    """ "yes" or "no" where that one alone is among the words; "**Yes**" is neither (VLMEvalKit)."""
    text = reply.lower()
    for mark in dict.fromkeys(PARTED.findall(text)):
        touches = f"{mark} " in text or f" {mark}" in text or NUMBER_COMMA.search(text)
        text = text.replace(mark, "" if touches else " ")
    answers = {"yes", "no"} & {*PERIOD.sub("", text).split()}
    return answers.pop() if len(answers) == 1 else ""


def first_letter(reply: str) -> str:
    """The first capital A to E anywhere, once openings such as "The answer is" are removed, and A
    for an empty reply (TreeBench in VLMEvalKit)."""
    text = reply.strip()
    for lead in LEADS:
        text = text.replace(lead, "")
    letter = re.search("[A-E]", text)
    if letter or len(text.split()) > WORDY:
        return letter[0] if letter else ""
    return next((name for name in "ABCDE" if text.lower() in f"({name})".lower()), "")


def braced(reply: str) -> str:
    """What stands in the first braces, white space included; empty where there are none
    (VLMsAreBlind)."""
    inner = re.search(r"\{(.*?)\}", reply)
    return inner[1] if inner else ""


def rows_and_columns(reply: str) -> tuple[int, ...]:
    """The numbers of "rows={4} columns={5}" in either order, else of the first "(4, 5)"."""
    rows = re.search(r"[Rr]ows?[^{}]*\{(\d+)\}", reply)
    columns = re.search(r"[Cc]olumns?[^{}]*\{(\d+)\}", reply)
    pair = re.search(r"\((\d+),\s*(\d+)\)", reply)
    if rows and columns:
        return int(rows[1]), int(columns[1])
    return (int(pair[1]), int(pair[2])) if pair else ()


def mean_best_iou(reply: str, targets: Sequence[Box]) -> float:
    """The mean over target boxes of the best IoU with any box that a reply writes as
    `<box>[x1,y1,x2,y2]</box>` in its `<think>`, without one in the whole reply (TreeBench).

    A box with a space between its numbers, with fractions or without an area is none. Boxes beyond
    the targets cost nothing. Without targets it is 1 for a reply with a box, else 0.
    """
    thought = re.search(r"<think>(.*?)</think>", reply, re.S)
    boxes = []
    for numbers in BOX.findall(thought[1] if thought else reply):
        left, top, right, bottom = map(int, numbers)
        if left < right and top < bottom:
            boxes.append((left, top, right, bottom))
    if not targets or not boxes:
        return float(bool(boxes))
    best = []
    for x0, y0, x1, y1 in targets:
        best.append(max(iou(box, (x0, y0, x1, y1)) for box in boxes))
    return sum(best) / len(best)


def _natural(reply: str, row: SampleRow) -> bool:
    letters = (row.answer or "").upper() in ("A", "B")
    return first_word(reply, ("a", "b") if letters else ("yes", "no")) == key_of(row)


def _tree(reply: str, row: SampleRow) -> bool:
    answer = re.search(r"<answer>(.*?)</answer>", reply, re.S)
    return (answer[1] if answer else reply).strip().upper() == row.answer


def _blind(reply: str, row: SampleRow) -> bool:
    task, key = str(row.meta.get("task", "")), row.answer or ""
    if task.startswith("Counting Grid"):
        return rows_and_columns(reply) == tuple(map(int, re.findall(r"\d+", key)))
    return braced(reply) == key if task in BRACED else key.lower() in reply.lower()


def _vp(reply: str, row: SampleRow) -> bool:
    """The first A to D in any word and case: "Answer: D" is A (VP-Bench's code of 2025-12)."""
    letter = re.search("[A-D]", reply.upper())
    return (letter[0] if letter else "") == row.answer


def key_of(row: SampleRow) -> str:
    """The key in small letters, yes and no for 1 and 0."""
    key = (row.answer or "").lower()
    return KEYS.get(key, key)


RULES: Mapping[str, Callable[[str, SampleRow], bool]] = {
    "natural_bench": _natural,
    "yes_or_no": lambda reply, row: yes_or_no(reply) == key_of(row),
    "tree_bench": _tree,
    "tree_bench_vlmevalkit": lambda reply, row: first_letter(reply) == row.answer,
    "vlms_are_blind": _blind,
    "vp_bench": _vp,
}
"""Whether a reply is right, by the name of the rule."""

MEAN = "mean_accuracy"


@dataclass(frozen=True)
class BenchmarkScorer(Scorer):
    """A benchmark of one table, scored as its authors' code or VLMEvalKit does.

    `all_right` names metrics with meta fields: the share of the groups of samples with the same
    values of these fields that are right as a whole. `mean_of` are meta fields from the outermost
    to the innermost: `mean_accuracy` is the mean over the values of the first of the mean over
    those of the second ..., beside it stands what it is for each value of the first.
    `rule` compares whole replies, with `read: {use: eval.readers.WholeReply}`: "natural_bench",
    "yes_or_no" (VLMEvalKit's HallusionBench), "tree_bench", "tree_bench_vlmevalkit",
    "vlms_are_blind" or "vp_bench"; where it is empty answers are compared as everywhere. `boxes` is
    the truth field of target boxes, as text, for `box_iou`, the mean of the best IoU of each with
    the boxes in the whole reply. `headlines` are the metrics that tables show first; null shows
    every metric over a whole task. Raises ValueError for another rule.
    """

    all_right: Mapping[str, Sequence[str]] = field(default_factory=dict)
    mean_of: tuple[str, ...] = ()
    rule: str = ""
    boxes: str = ""
    headlines: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.rule and self.rule not in RULES:
            raise ValueError(f"rule is one of {', '.join(RULES)}, or empty; found {self.rule!r}")

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """By the rule, where there is one."""
        if not self.rule:
            return None
        return Score.of(RULES[self.rule](answer, row))

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Those that the settings name, of the fields that the samples have."""
        metrics = list[Metric]()
        for name, fields in self.all_right.items():
            if groups := group_by(scores.keyed, *fields):
                metrics.append(group_metric(name, fields[-1], scores, groups))
        if self.mean_of:
            metrics += self._means(scores)
        if self.boxes:
            units = scores.means(lambda draw: self._iou(draw.answer, scores.samples[draw.sample]))
            metrics += [Metric("box_iou", units, clusters=scores.clusters)] if units else []
        return metrics

    def chance(self, samples: Samples) -> Levels:
        """Of guesses among the choices; nothing where a question has none."""
        if not samples or not all(row.n_choices for row in samples.values()):
            return {}
        guessed = {name: 1 / row.n_choices for name, row in samples.items()}
        levels = {}
        for metric, fields in self.all_right.items():
            if groups := group_by(samples, *fields):
                levels[metric] = fmean(
                    prod(guessed[name] for name in members) for members in groups.values()
                )
        if self.mean_of and (counted := self._counted(samples)):
            values = {name: guessed[name] for name in counted}
            levels[MEAN] = mean_of_means(values, samples, self.mean_of)
        return levels

    def _means(self, scores: PointScores) -> Iterator[Metric]:
        counted = self._counted(scores.keyed)
        values = {name: worth for name, worth in accuracy(scores).items() if name in counted}
        if not values:
            return
        yield _mean_metric(values, scores, self.mean_of)
        outer, *inner = self.mean_of
        parts = group_by({name: scores.keyed[name] for name in values}, outer)
        for part, members in parts.items():
            worth = {name: values[name] for name in members}
            yield _mean_metric(worth, scores, inner, f"{outer}={part}")

    def _counted(self, samples: Samples) -> set[str]:
        """The samples that have every field of the mean."""
        return {*chain.from_iterable(group_by(samples, *self.mean_of).values())}

    def _iou(self, reply: str | None, row: SampleRow) -> float | None:
        """None for a bare letter, in which a reader left no boxes."""
        if reply is not None and len(reply) == 1:
            return None
        return mean_best_iou(reply or "", literal_eval(str(row.truth.get(self.boxes) or "[]")))


def _mean_metric(
    values: Mapping[str, float], scores: PointScores, fields: Sequence[str], part: str = ""
) -> Metric:
    """Without a value of its own where parts of one size make it the plain mean, which has an
    interval."""
    mean = mean_of_means(values, scores.keyed, fields)
    own = None if isclose(mean, fmean(values.values())) else mean
    failed = frozenset(values.keys() - scores.comparable.keys())
    return Metric(MEAN, values, "sample", failed, own, part, clusters=scores.clusters)


def mean_of_means(values: Mapping[str, float], samples: Samples, fields: Sequence[str]) -> float:
    """The mean over the values of the first field of the mean over those of the second, and so on.

    Every sample has every field."""
    if not fields:
        return fmean(values.values())
    parts = group_by({name: samples[name] for name in values}, fields[0])
    means = []
    for members in parts.values():
        means.append(mean_of_means({name: values[name] for name in members}, samples, fields[1:]))
    return fmean(means)
