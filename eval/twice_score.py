"""BLINK-Twice's accuracies, by the paper, by what its numbers show, and by NaturalBench, and its CoT score."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from looktwice.eval.metrics import comparable
from looktwice.eval.records import SampleRow
from looktwice.eval.score import PointScores
from looktwice.eval.scorer import Figure, Scorer
from looktwice.eval.units import figure, grouped, keyed

__all__ = ["TwiceScorer", "cot_score", "judged_cot"]

CRITERIA = ("clues", "truth")
_JUDGED = {
    "clues": re.compile(r"\b(?:clues?|cues?)\b[^\d\n]{0,40}?(\d+(?:\.\d+)?)(?!\s*[-.\d])", re.I),
    "truth": re.compile(r"\b(?:truth|reality)\b[^\d\n]{0,40}?(\d+(?:\.\d+)?)(?!\s*[-.\d])", re.I),
}


def cot_score(clues: float, truth: float) -> float:
    """The CoT score (supplement, "CoT Score"): visual clues seen (0..1) and truth inferred (0..1), their mean.

    Raises ValueError for a criterion outside 0..1.
    """
    for name, value in zip(CRITERIA, (clues, truth), strict=True):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"the criterion {name} lies in 0..1, found {value}")
    return (clues + truth) / 2


def judged_cot(text: str) -> tuple[float, float] | None:
    """Both criteria from a judge's words, such as "Clues: 0.5" and "Truth: 1" on lines of their own; else None."""
    found = [_JUDGED[name].findall(text) for name in CRITERIA]
    if any(len(values) != 1 for values in found):
        return None
    clues, truth = (float(values[0]) for values in found)
    return (clues, truth) if max(clues, truth) <= 1.0 else None


@dataclass(frozen=True)
class TwiceScorer(Scorer):
    """Two yes/no questions per image, up to two images per group.

    `no_acc` and `yes_acc` are over the questions with that key, `q_acc` is over all questions (which every published
    row equals), `q_acc_either` over images with one right question at least (the supplement's words), `i_acc` over
    images with both right, `g_acc` over groups of two images with all four right, and `q_acc_naturalbench` over
    questions that are asked of both images of a group and are right on both. Incomplete images and groups are not
    counted in what they are too small for.
    """

    per_image: int = 2
    per_group: int = 4

    def figures(self, scores: PointScores) -> Sequence[Figure]:
        """Every accuracy that the files' fields allow."""
        samples = keyed(scores)
        failed = frozenset(name for name in samples if name not in comparable(scores))
        each = {name: [name] for name in samples}
        plain = figure("q_acc", "question", scores, each).units
        found = [
            Figure(metric, {n: v for n, v in plain.items() if samples[n].answer == key}, "question", failed)
            for metric, key in (("no_acc", "B"), ("yes_acc", "A"))
        ]
        found.append(Figure("q_acc", plain, "question", failed))
        images = {name: held for name, held in grouped(samples, "image").items() if len(held) == self.per_image}
        groups = {name: held for name, held in grouped(samples, "group").items() if len(held) == self.per_group}
        inside = {name: samples[name] for held in groups.values() for name in held}
        twins = {name: held for name, held in grouped(inside, "group", "slot").items() if len(held) == 2}
        found.append(figure("q_acc_either", "image", scores, images, any))
        found.append(figure("i_acc", "image", scores, images))
        found.append(figure("q_acc_naturalbench", "question pair", scores, twins))
        found.append(figure("g_acc", "group", scores, groups))
        return [entry for entry in found if entry.units]

    def chance(self, samples: Mapping[str, SampleRow]) -> Mapping[str, float]:
        """Of a fair coin for every question."""
        return {
            "no_acc": 0.5,
            "yes_acc": 0.5,
            "q_acc": 0.5,
            "q_acc_either": 0.75,
            "i_acc": 0.5**self.per_image,
            "q_acc_naturalbench": 0.25,
            "g_acc": 0.5**self.per_group,
        }
