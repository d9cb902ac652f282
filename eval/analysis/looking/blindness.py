"""How much of a benchmark a model answers without its images: arms, mirage scores, items that need
none, letters.

The arms go by the names of their contestants, those of `configs/blindness.yaml`. After Mirage
(arXiv 2603.21687): its score is accuracy without the image, asked as if it were there, by accuracy
with it; its cleaned set drops every item that any model solves without the image.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import fmean
from string import ascii_uppercase
from typing import Literal

from looktwice.eval.analysis.looking.tastes import FALSE_SHARE, BlindQuestion, Tastes, find_tastes
from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.labels import contestant_changes
from looktwice.eval.scoring.score import compare_with_key
from looktwice.eval.scoring.values import Values
from looktwice.eval.scoring.verdict import PointScores, ReadResult, RunScores, Verdict
from looktwice.eval.statistics.paired import benjamini_hochberg
from looktwice.pipelines.model import canonical

ARMS: Mapping[str, str] = {
    "seen": "question, choices and image",
    "no-image": "no image, asked as if it were there",
    "blank": "a grey image",
    "other": "the image of another question",
    "shuffled": "its patches in a random order",
    "caption": "a description of the image",
    "choices-only": "the choices alone",
    "question-only": "the question alone",
}
WITHOUT = ("no-image", "blank")
"""The arms by which an item is found to need no image, the first of them that a run has: of a model
that answers from the words alone, the same words in the other are the same guess again, and no
second try."""
Rule = Literal["chance", "any"]


@dataclass(frozen=True)
class BlindItem:
    """How often a question was answered right without its image, and how likely that is by the
    model's tastes alone.

    `p` is 1 where less than `tastes.SURE` of the draws are right: such a question is not listed.
    """

    task: str
    sample: str
    right: int
    asked: int
    p: float


@dataclass(frozen=True)
class Audit:
    """The arms of one model on one task, by name."""

    arms: Mapping[str, PointScores]

    @property
    def seen(self) -> PointScores:
        """The arm that sees everything."""
        return self.arms["seen"]

    @cached_property
    def chance(self) -> Mapping[str, float]:
        """The chance of each sample with a key: one over its choices, of open ones the share of the
        commonest key."""
        keyed = self.seen.keyed
        keys = Counter(row.answer for row in keyed.values() if not row.sample["choices"])
        common = max(keys.values(), default=0) / max(1, sum(keys.values()))
        return {
            name: 1 / len(row.sample["choices"]) if row.sample["choices"] else common
            for name, row in keyed.items()
        }

    @cached_property
    def tastes(self) -> Tastes:
        """What the model says without the images, and the tastes that this shows."""
        arm = next(self.arms[name] for name in WITHOUT if name in self.arms)
        questions = (_blind_question(arm, name, self.seen.samples[name]) for name in self.chance)
        return find_tastes([question for question in questions if question.draws])

    @cached_property
    def items(self) -> list[BlindItem]:
        """Every sample that was asked without its image, with how likely so many right answers are
        by taste."""
        task = self.seen.point.task
        pairs = zip(self.tastes.questions, self.tastes.ps.tolist(), strict=True)
        return [BlindItem(task, row.sample, row.right, row.draws, p) for row, p in pairs]

    @property
    def draws(self) -> int:
        """How often a question was asked without its image."""
        return max((question.draws for question in self.tastes.questions), default=0)

    @cached_property
    def values(self) -> Values[str, str]:
        """The values of every arm, on the samples of the one that sees everything."""
        arms = {name: scores.comparable for name, scores in self.arms.items()}
        values = Values.of(arms, self.seen.clusters)
        return values.where(values.has("seen"))

    def means(self, arm: str) -> tuple[float, float, float] | None:
        """The accuracy of an arm, that of the seen one and chance, on the samples of both."""
        both = self.values.where(self.values.has(arm))
        if not both.units:
            return None
        chance = fmean(self.chance[name] for name in both.units)
        return fmean(both[arm]), fmean(both["seen"]), chance

    def mirage(self, arm: str) -> float | None:
        """Accuracy of an arm by that of the seen one, on the samples of both; None where nothing is
        right when seen."""
        means = self.means(arm)
        return means[0] / means[1] if means and means[1] > 0 else None

    def beyond_chance(self, arm: str) -> float | None:
        """The same of what lies above chance; None where nothing does when seen."""
        mine, seen, chance = self.means(arm) or (0.0, 0.0, 1.0)
        return (mine - chance) / (seen - chance) if seen > chance else None


def audits(run: RunScores) -> list[Audit]:
    """The audit of every task and model of a run that has the arms `seen` and `no-image` or
    `blank`."""
    groups: dict[str, dict[str, PointScores]] = defaultdict(dict)
    for scores in run.points:
        if scores.point.contestant in ARMS and scores.all:
            group = canonical([scores.point.task_id, contestant_changes(scores.point)])
            groups[group][scores.point.contestant] = scores
    ordered = ({name: arms[name] for name in ARMS if name in arms} for arms in groups.values())
    return [
        Audit(arms) for arms in ordered if "seen" in arms and not arms.keys().isdisjoint(WITHOUT)
    ]


def listed_by_taste(tastes: Tastes) -> list[BlindQuestion]:
    """The questions that are right more often than by taste, with FALSE_SHARE false ones among
    them."""
    corrected = benjamini_hochberg(tastes.ps.tolist())
    return [row for row, p in zip(tastes.questions, corrected, strict=True) if p <= FALSE_SHARE]


def needs_no_image(audited: Sequence[Audit], rule: Rule = "chance") -> list[BlindItem]:
    """The items that any of the models solves without the image.

    By `any`, one right answer suffices, as in Mirage's cleaned set; then luck is among them. By
    `chance`, the right answers of a model must be more than its tastes give, with `FALSE_SHARE`
    false finds (Benjamini and Hochberg 1995).
    """
    listed: dict[tuple[str, str], BlindItem] = {}
    for audit in audited:
        by_taste = {question.sample for question in listed_by_taste(audit.tastes)}
        for item in audit.items:
            if item.right > 0 if rule == "any" else item.sample in by_taste:
                listed.setdefault((item.task, item.sample), item)
    return list(listed.values())


def expected_by_luck(audited: Sequence[Audit], rule: Rule) -> float:
    """How many items the rule `any` lists by the models' tastes alone; by `chance`, the bound on
    false finds."""
    if rule == "chance":
        # each model has false finds of its own
        return FALSE_SHARE * sum(len(needs_no_image([audit])) for audit in audited)
    lucky: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for audit in audited:
        tails = {draws: audit.tastes.tails(draws) for draws in {item.asked for item in audit.items}}
        for number, item in enumerate(audit.items):
            lucky[item.task, item.sample] *= 1 - float(tails[item.asked][number, 1])
    return sum(1 - never for never in lucky.values())


def _blind_question(arm: PointScores, name: str, row: SampleRow) -> BlindQuestion:
    """What an arm says to a sample with a key in the draws that did not fail, choices as their
    texts."""
    asked = arm.not_failed(name)
    words = (
        choice.casefold() if isinstance(choice, str) else canonical(choice)
        for choice in row.sample["choices"]
    )
    choices = dict(zip(ascii_uppercase, words, strict=False))
    spoken = [entry.answer for entry in asked if entry.answer is not None]
    answers = Counter(choices.get(answer.strip(), answer) for answer in spoken)

    @cache
    def accepts(answer: str) -> bool:
        return compare_with_key(ReadResult(answer=answer), row, arm.scorer).verdict is Verdict.RIGHT

    key, right = str(row.answer), sum(entry.verdict is Verdict.RIGHT for entry in asked)
    texts, question = tuple(choices.values()), row.sample["question"]
    return BlindQuestion(
        name, question, texts, choices.get(key, key), answers, len(asked), right, accepts
    )
