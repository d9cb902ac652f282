"""The metrics by which benchmarks of tables are quoted, told as settings of one scorer: a rule for
replies, groups that are right as a whole, means of means, and boxes."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isclose, prod
from statistics import fmean

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.metrics import accuracy, group_by, group_metric
from looktwice.eval.scoring.reply_rules import RULES, mean_best_iou
from looktwice.eval.scoring.verdict import Metric, PointScores, Score, Scorer, Verdict

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
    the boxes in the whole reply. `headlines` are the metrics that tables show first. Raises
    ValueError for another rule.
    """

    all_right: Mapping[str, Sequence[str]] = field(default_factory=dict)
    mean_of: tuple[str, ...] = ()
    rule: str = ""
    boxes: str = ""
    headlines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rule and self.rule not in RULES:
            raise ValueError(f"rule is one of {', '.join(RULES)}, or empty; found {self.rule!r}")

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """By the rule, where there is one."""
        if not self.rule:
            return None
        right = RULES[self.rule](answer, row)
        return Score(Verdict.RIGHT if right else Verdict.WRONG, float(right))

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

    def chance(self, samples: Mapping[str, SampleRow]) -> Mapping[str, float]:
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

    def _counted(self, samples: Mapping[str, SampleRow]) -> set[str]:
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


def mean_of_means(
    values: Mapping[str, float], samples: Mapping[str, SampleRow], fields: Sequence[str]
) -> float:
    """The mean over the values of the first field of the mean over those of the second, and so on.

    Every sample has every field."""
    if not fields:
        return fmean(values.values())
    parts = group_by({name: samples[name] for name in values}, fields[0])
    means = []
    for members in parts.values():
        means.append(mean_of_means({name: values[name] for name in members}, samples, fields[1:]))
    return fmean(means)
