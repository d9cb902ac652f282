"""How much of a benchmark a model answers without its images: arms, mirage scores, items that need
none, letters.

The arms go by the names of their contestants, those of `configs/blindness.yaml`. After Mirage
(arXiv 2603.21687): its score is accuracy without the image, asked as if it were there, by accuracy
with it; its cleaned set drops every item that any model solves without the image.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import compress
from statistics import fmean
from string import ascii_uppercase
from typing import Literal

import numpy as np

from looktwice.eval.analysis.steadiness import asked_letters
from looktwice.eval.display.printable import csv_text
from looktwice.eval.display.text_tables import (
    OF_ARM,
    Column,
    Columns,
    TextTable,
    change_cell,
    format_p,
    names,
    percent,
    share_cell,
    table,
    text,
)
from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.labels import contestant_changes
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.answers import PositionBias, position_bias
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import Values, benjamini_hochberg
from looktwice.extras.studies.tastes import (
    FALSE_SHARE,
    LEAKS,
    POWER,
    STRENGTH,
    TRIED_DRAWS,
    BlindQuestion,
    Tastes,
    find_tastes,
)
from looktwice.pipelines.disk import dump_yaml
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
        keys = Counter(row.answer for row in keyed.values() if not row.n_choices)
        common = max(keys.values(), default=0) / max(1, keys.total())
        return {n: 1 / row.n_choices if row.n_choices else common for n, row in keyed.items()}

    @cached_property
    def tastes(self) -> Tastes:
        """What the model says without the images, and the tastes that this shows."""
        arm = self.arms[next(filter(self.arms.__contains__, WITHOUT))]
        questions = (_blind_question(arm, name, self.seen.samples[name]) for name in self.chance)
        return find_tastes([question for question in questions if question.draws])

    @cached_property
    def items(self) -> list[BlindItem]:
        """Every sample that was asked without its image, with how likely so many right answers are
        by taste."""
        task = self.seen.point.task
        pairs = zip(self.tastes.questions, self.tastes.ps.tolist(), strict=True)
        return [BlindItem(task, row.sample, row.right, row.draws, p) for row, p in pairs]

    def kept(self, blind: Sequence[BlindItem]) -> set[str]:
        """The samples of the cleaned set, without those listed."""
        left_out = {item.sample for item in blind if item.task == self.seen.point.task}
        return self.seen.samples.keys() - left_out

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
    audited = []
    for arms in groups.values():
        if "seen" in arms and {*WITHOUT} & arms.keys():
            audited.append(Audit({name: arms[name] for name in ARMS if name in arms}))
    return audited


def listed_by_taste(tastes: Tastes) -> list[BlindQuestion]:
    """The questions that are right more often than by taste, with FALSE_SHARE false ones among
    them."""
    corrected = np.array(benjamini_hochberg(tastes.ps))
    return [*compress(tastes.questions, corrected <= FALSE_SHARE)]


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
    false finds, of which each model has its own."""
    if rule == "chance":
        return FALSE_SHARE * sum(len(needs_no_image([audit])) for audit in audited)
    lucky: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for audit in audited:
        tails = cache(audit.tastes.tails)
        for number, item in enumerate(audit.items):
            lucky[item.task, item.sample] *= 1 - float(tails(item.asked)[number, 1])
    return sum(1 - never for never in lucky.values())


def _blind_question(arm: PointScores, name: str, row: SampleRow) -> BlindQuestion:
    """What an arm says to a sample with a key in the draws that did not fail, choices as their
    texts."""
    words = (
        choice.casefold() if isinstance(choice, str) else canonical(choice)
        for choice in row.sample["choices"]
    )
    choices = dict(zip(ascii_uppercase, words, strict=False))
    asked, answers, right = arm.not_failed(name), Counter[str](), 0
    for entry in asked:
        right += entry.verdict is Verdict.RIGHT
        if entry.answer is not None:
            answers[choices.get(entry.answer.strip(), entry.answer)] += 1
    key = str(row.answer)
    texts, question = tuple(choices.values()), row.sample["question"]
    accepts = cache(partial(arm.accepts, row))
    return BlindQuestion(
        name, question, texts, choices.get(key, key), answers, len(asked), right, accepts
    )


# ---- what an audit says


def clean_subset(run: RunScores, audits: Sequence[Audit], blind: Sequence[BlindItem]) -> str:
    """The samples that are left, as a piece of a configuration that goes over the study's."""
    nodes = {}
    for audit in audits:
        kept = audit.kept(blind)
        ids = [name for name in audit.seen.samples if name in kept]
        nodes[audit.seen.point.task] = {"subset": {"ids": ids}}
    short = "task" in run.config and len(nodes) == 1
    plain = {"task": next(iter(nodes.values()))} if short else {"tasks": nodes}
    count = len({(item.task, item.sample) for item in blind})
    head = (
        f"# The samples of {run.name} that need their image: {count} that do not are left"
        " out.\n# Run it with a file that says `include: [STUDY.yaml, clean.yaml]`; `score RUN"
        " --only clean.yaml` shows it.\n"
    )
    return head + dump_yaml(plain)


def blind_items_csv(blind: Sequence[BlindItem]) -> str:
    """The listed items as CSV."""
    lines = [(item.task, item.sample, item.right, item.asked, f"{item.p:.3g}") for item in blind]
    return csv_text([("task", "sample", "right", "asked", "p"), *lines])


@dataclass(frozen=True)
class ArmLine:
    """An arm of an audit; `kept` are the samples of the cleaned set."""

    audit: Audit
    arm: str
    kept: set[str]

    @property
    def scores(self) -> PointScores:
        """The scores of the arm."""
        return self.audit.arms[self.arm]

    @property
    def accuracy(self) -> Estimate | None:
        """On the samples that the seen arm answered, too."""
        return self.audit.values.mean(self.arm)

    @property
    def paired(self) -> Estimate | None:
        """The arm less the seen one; None for that one."""
        return None if self.arm == "seen" else self.audit.values.pair(self.arm, "seen")

    @property
    def cleaned(self) -> str:
        """The accuracy on the cleaned set, and how many samples that are."""
        values = [value for name, value in self.scores.comparable.items() if name in self.kept]
        return f"{percent(fmean(values))}\nn = {len(values)}" if values else ""

    def beside(self, measure: Callable[[str], float | None]) -> float | None:
        """What a measure says of the arm; None for the seen one."""
        return None if self.arm == "seen" else measure(self.arm)


ARM_COLUMNS: Columns[ArmLine] = (
    *OF_ARM,
    Column("what it gets", lambda line: ARMS[line.arm], text),
    Column("n", "accuracy.n"),
    Column("accuracy\n%", "accuracy", share_cell),
    Column("against seen", "paired", change_cell),
    Column("p", "paired.p", format_p),
    Column("mirage\nscore", lambda line: line.beside(line.audit.mirage), "{:.2f}"),
    Column("above\nchance", lambda line: line.beside(line.audit.beyond_chance), "{:.2f}"),
    Column("accuracy on\ncleaned set %", "cleaned"),
)


def arm_table(audits: Sequence[Audit], blind: Sequence[BlindItem]) -> TextTable:
    """A line for each arm: its accuracy, on all samples and on the cleaned set, and its mirage
    score."""
    lines = [ArmLine(audit, arm, audit.kept(blind)) for audit in audits for arm in audit.arms]
    return table(ARM_COLUMNS, [line for line in lines if line.accuracy])


TASTE_NOTE = (
    "A model that does not look has tastes: for words, for letters, and for keeping to a guess."
    " They are told from how often it gives the wrong choices of its other questions; a question"
    " is listed where it is right more often than these tastes give. The power is that for"
    f" questions which the model knows and answers right in {STRENGTH:.0%} of the draws, where"
    f" {LEAKS:.0%} of all questions are such."
)


def say_power(audit: Audit) -> str:
    """What the draws of an audit can show of its model, in words."""
    tastes, draws = audit.tastes, audit.draws
    power, needed = tastes.power(draws), tastes.draws_needed()
    if needed is None:
        more = f"no number of draws up to {TRIED_DRAWS[-1]} gives {POWER:.0%}"
    else:
        more = f"{needed} draws give {POWER:.0%}"
    if power == 0:
        return (
            f"no question can be shown to need no image with {draws} draws of each: in"
            f" {tastes.firm:.0%} of the others the model keeps to one wrong choice, so a right one"
            f" may be kept to as well; {more}"
        )
    return (
        f"of the questions that it knows by their words, {power:.0%} would be listed with {draws}"
        f" draws of each; {more}"
    )


TASTE_COLUMNS: Columns[Audit] = (
    *names("contestant", "task", of="seen"),
    Column("tastes are told by", "tastes.grouping.words", text),
    Column("questions", lambda audit: len(audit.items)),
    Column("draws", "draws"),
    Column("right\nby taste %", "tastes.expected", percent),
    Column("keeps to a\nwrong one %", "tastes.firm", percent),
    Column("power\n%", lambda audit: audit.tastes.power(audit.draws), percent),
    Column("what could be listed", lambda audit: say_power(audit)),
)


def taste_table(audits: Sequence[Audit]) -> TextTable:
    """A line for each audit: what its model reaches by its tastes, and which share of leaks its
    draws would show."""
    return table(TASTE_COLUMNS, [audit for audit in audits if audit.items])


@dataclass(frozen=True)
class LetterLine:
    """The letters of an arm."""

    scores: PointScores
    bias: PositionBias

    @property
    def always_right(self) -> float | None:
        """The share of samples that are right in every draw; None of a single draw."""
        draws = [*map(self.scores.asked, self.scores.comparable)]
        if self.scores.point.draws < 2 or not draws:
            return None
        return fmean(all(entry.verdict is Verdict.RIGHT for entry in asked) for asked in draws)


def _by_letter(shares: Mapping[str, float]) -> str:
    return " ".join(f"{letter} {100 * share:.0f}" for letter, share in shares.items())


LETTER_COLUMNS: Columns[LetterLine] = (
    *OF_ARM,
    Column("answers", "bias.n"),
    Column("said, by letter %", "bias.chosen", _by_letter),
    Column("right where it is the key %", "bias.recall", _by_letter),
    Column("spread of\nrecall", "bias.spread", "{:.3f}"),
    Column("p", "bias.p", format_p),
    Column("right in\nevery draw %", "always_right", percent),
)


def letter_table(run: RunScores, audits: Sequence[Audit]) -> TextTable:
    """A line for each arm with choices: how often each letter was said, recall by the key's place,
    all draws right."""
    letters = defaultdict[str, list[tuple[str, str]]](list)
    for scores, entry, answer, key in asked_letters(run):
        if entry.verdict in (Verdict.RIGHT, Verdict.WRONG):
            letters[scores.point.id].append((answer, key))
    arms = {arm.point.id: arm for audit in audits for arm in audit.arms.values()}
    lines = [
        LetterLine(arm, position_bias(*zip(*letters[name], strict=True)))
        for name, arm in arms.items()
        if name in letters
    ]
    return table(LETTER_COLUMNS, lines).without_empty()


def audit_sentences(audits: Sequence[Audit], blind: Sequence[BlindItem], rule: Rule) -> list[str]:
    """What the audit finds, in words."""
    sentences = []
    for audit in audits:
        chance = fmean(audit.chance.values())
        for arm in WITHOUT:
            means = audit.means(arm) if arm in audit.arms else None
            if means and means[1] > 0:
                sentences.append(
                    f"{audit.seen.task}: {100 * means[1]:.1f} % are right with the image and"
                    f" {100 * means[0]:.1f} % in the arm {arm}: mirage score"
                    f" {means[0] / means[1]:.2f}; chance is {100 * chance:.1f} %."
                )
        if audit.items and rule == "chance":
            sentences.append(f"{audit.seen.task}: {say_power(audit)}.")
    asked = len({(item.task, item.sample) for audit in audits for item in audit.items})
    words = (
        "any right answer without the image"
        if rule == "any"
        else "more right answers than tastes give"
    )
    bound, count = "about" if rule == "any" else "at most", expected_by_luck(audits, rule)
    luck = f"{bound} {count:.1f} of them are expected by luck"
    sentences.append(f"{len(blind)} of {asked} items need no image, by {words}; {luck}.")
    return sentences


def audit_page(run: RunScores, audits: Sequence[Audit], rule: Rule = "chance") -> str:
    """The page of the audit as Markdown; the whole list of items stands in the CSV beside it."""
    blind = needs_no_image(audits, rule)
    parts = [f"# What {run.name} answers without its images", *audit_sentences(audits, blind, rule)]
    parts += ["## Arms", arm_table(audits, blind).markdown]
    parts += ["## What could be listed", taste_table(audits).markdown, TASTE_NOTE]
    letters = letter_table(run, audits)
    parts += ["## Letters and their places", letters.markdown] if letters.rows else []
    named = ", ".join(item.sample for item in blind[:50]) + (", ..." if len(blind) > 50 else "")
    parts += ["## Items that need no image", named or "none"]
    return "\n\n".join(parts) + "\n"
