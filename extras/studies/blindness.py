"""An audit of a model's answers without a benchmark's images: the arms, mirage scores, items that
need no image, and letter preferences.

The arms have the names of the contestants in `configs/blindness.yaml`. The method is Mirage's
(arXiv 2603.21687): its score is the accuracy without the image, asked as if it were there, divided
by the accuracy with it; its cleaned set drops items solved without the image.
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

from looktwice.eval.analysis.letters import ChosenLetter, PositionBias, count_letters, measure_bias
from looktwice.eval.display.printable import format_csv
from looktwice.eval.display.text_tables import (
    ARM_NAME_COLUMNS,
    Column,
    Columns,
    TextTable,
    attribute_columns,
    change_cell,
    format_p,
    percent,
    share_cell,
    table,
    text,
)
from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.labels import get_contestant_changes
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import ValueMatrix, benjamini_hochberg
from looktwice.extras.studies.answer_bias import (
    CANDIDATE_DRAW_COUNTS,
    FALSE_DISCOVERY_RATE,
    KNOWN_RIGHT_SHARE,
    LEAK_SHARE,
    TARGET_POWER,
    AnswerBias,
    BlindQuestion,
    estimate_bias,
)
from looktwice.pipelines.disk import dump_yaml
from looktwice.pipelines.json_input import write_canonical

ARM_DESCRIPTIONS: Mapping[str, str] = {
    "seen": "question, choices and image",
    "no-image": "no image, asked as if it were there",
    "blank": "a grey image",
    "other": "the image of another question",
    "shuffled": "the image's patches in a random order",
    "caption": "a description of the image",
    "choices-only": "the choices alone",
    "question-only": "the question alone",
}
BLIND_ARMS = ("no-image", "blank")
"""The arms that show whether an item needs its image; the first one in a run is used. The other
would not be independent: a model that ignores images repeats its guess."""
Rule = Literal["chance", "any"]


@dataclass(frozen=True)
class BlindItem:
    """A question's number of right answers without its image, and the probability `p` of at least
    as many under the model's answer bias alone.

    `p` is 1 if less than `answer_bias.MIN_RIGHT_SHARE` of the draws are right; such a question is
    never listed.
    """

    task: str
    sample: str
    right_count: int
    asked_count: int
    p: float


@dataclass(frozen=True)
class Audit:
    """The arms of one model on one task, by name."""

    arms: Mapping[str, PointScores]

    @property
    def seen_arm(self) -> PointScores:
        """The arm with the full input."""
        return self.arms["seen"]

    @cached_property
    def chance(self) -> Mapping[str, float]:
        """The chance level of each sample with a key: 1 over its number of choices, or, for open
        questions, the share of the most frequent key."""
        keyed = self.seen_arm.keyed_samples
        keys = Counter(row.answer for row in keyed.values() if not row.n_choices)
        common = max(keys.values(), default=0) / max(1, keys.total())
        return {n: 1 / row.n_choices if row.n_choices else common for n, row in keyed.items()}

    @cached_property
    def bias(self) -> AnswerBias:
        """The model's answer bias, estimated from its answers without the images."""
        arm = self.arms[next(filter(self.arms.__contains__, BLIND_ARMS))]
        questions = (_make_question(arm, name, self.seen_arm.samples[name]) for name in self.chance)
        return estimate_bias([question for question in questions if question.draw_count])

    @cached_property
    def items(self) -> list[BlindItem]:
        """The samples asked without their image, with their p-values under the model's answer
        bias."""
        task = self.seen_arm.point.task
        pairs = zip(self.bias.questions, self.bias.p_values.tolist(), strict=True)
        return [BlindItem(task, row.sample, row.right_count, row.draw_count, p) for row, p in pairs]

    def list_kept(self, blind: Sequence[BlindItem]) -> set[str]:
        """Return the samples of the cleaned set, which excludes the listed items."""
        left_out = {item.sample for item in blind if item.task == self.seen_arm.point.task}
        return self.seen_arm.samples.keys() - left_out

    @property
    def draw_count(self) -> int:
        """The number of draws per question without its image."""
        return max((question.draw_count for question in self.bias.questions), default=0)

    @cached_property
    def values(self) -> ValueMatrix[str, str]:
        """The values of every arm, on the samples of the `seen` arm."""
        arms = {name: scores.comparable_values for name, scores in self.arms.items()}
        values = ValueMatrix.of(arms, self.seen_arm.clusters)
        return values.where(values.valid_mask("seen"))

    def compute_means(self, arm: str) -> tuple[float, float, float] | None:
        """Return the accuracy of an arm, that of `seen`, and chance, on the samples of both
        arms."""
        both = self.values.where(self.values.valid_mask(arm))
        if not both.units:
            return None
        chance = fmean(self.chance[name] for name in both.units)
        return fmean(both[arm]), fmean(both["seen"]), chance

    def compute_mirage(self, arm: str) -> float | None:
        """Compute the mirage score: an arm's accuracy divided by that of `seen`, on the samples of
        both arms; None if nothing is right in `seen`."""
        means = self.compute_means(arm)
        return means[0] / means[1] if means and means[1] > 0 else None

    def compute_excess(self, arm: str) -> float | None:
        """Compute the mirage score of accuracies above chance; None if `seen` is not above
        chance."""
        mine, seen, chance = self.compute_means(arm) or (0.0, 0.0, 1.0)
        return (mine - chance) / (seen - chance) if seen > chance else None


def find_audits(run: RunScores) -> list[Audit]:
    """Return the audit of every task and model of a run with the arms `seen` and `no-image` or
    `blank`."""
    groups: dict[str, dict[str, PointScores]] = defaultdict(dict)
    for scores in run.points:
        if scores.point.contestant in ARM_DESCRIPTIONS and len(scores.columns):
            group = write_canonical([scores.point.task_id, get_contestant_changes(scores.point)])
            groups[group][scores.point.contestant] = scores
    audited = []
    for arms in groups.values():
        if "seen" in arms and {*BLIND_ARMS} & arms.keys():
            audited.append(Audit({name: arms[name] for name in ARM_DESCRIPTIONS if name in arms}))
    return audited


def select_beyond_bias(bias: AnswerBias) -> list[BlindQuestion]:
    """Return the questions that are right more often than bias explains, at a false discovery rate
    of FALSE_DISCOVERY_RATE."""
    corrected = np.array(benjamini_hochberg(bias.p_values))
    return [*compress(bias.questions, corrected <= FALSE_DISCOVERY_RATE)]


def find_imageless_items(audited: Sequence[Audit], rule: Rule = "chance") -> list[BlindItem]:
    """Return the items that any of the models solves without the image.

    Under the rule `any`, one right answer suffices, even a lucky guess, as in Mirage's cleaned set.
    Under `chance`, a model's right answers must exceed those expected from its answer bias, at a
    false discovery rate of `FALSE_DISCOVERY_RATE` (Benjamini and Hochberg 1995).
    """
    listed: dict[tuple[str, str], BlindItem] = {}
    for audit in audited:
        by_bias = {question.sample for question in select_beyond_bias(audit.bias)}
        for item in audit.items:
            if item.right_count > 0 if rule == "any" else item.sample in by_bias:
                listed.setdefault((item.task, item.sample), item)
    return list(listed.values())


def count_expected_by_chance(audited: Sequence[Audit], rule: Rule) -> float:
    """Return the number of items that the rule `any` would list because of answer bias alone; for
    `chance`, the bound on the number of false discoveries, summed over the models."""
    if rule == "chance":
        return FALSE_DISCOVERY_RATE * sum(len(find_imageless_items([audit])) for audit in audited)
    lucky: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for audit in audited:
        tails = cache(audit.bias.compute_tails)
        for number, item in enumerate(audit.items):
            lucky[item.task, item.sample] *= 1 - float(tails(item.asked_count)[number, 1])
    return sum(1 - never for never in lucky.values())


def _make_question(arm: PointScores, name: str, row: SampleRow) -> BlindQuestion:
    """Build a question from an arm's answers to a sample, as texts; leave out failed draws."""
    words = (
        choice.casefold() if isinstance(choice, str) else write_canonical(choice)
        for choice in row.sample["choices"]
    )
    choices = dict(zip(ascii_uppercase, words, strict=False))
    asked, answers, right = arm.get_successful_draws(name), Counter[str](), 0
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


# ---- output of an audit


def make_clean_subset(run: RunScores, audits: Sequence[Audit], blind: Sequence[BlindItem]) -> str:
    """Return a configuration that restricts the study to the samples of the cleaned set."""
    nodes = {}
    for audit in audits:
        kept = audit.list_kept(blind)
        ids = [name for name in audit.seen_arm.samples if name in kept]
        nodes[audit.seen_arm.point.task] = {"subset": {"ids": ids}}
    short = "task" in run.config and len(nodes) == 1
    plain = {"task": next(iter(nodes.values()))} if short else {"tasks": nodes}
    count = len({(item.task, item.sample) for item in blind})
    head = (
        f"# The samples of {run.name} that need their image; {count} that do not are left out.\n"
        "# To run the study on them, write a file with `include: [STUDY.yaml, clean.yaml]`.\n"
        "# To score a finished run on them: `looktwice score RUN --only clean.yaml`.\n"
    )
    return head + dump_yaml(plain)


def format_blind_items(blind: Sequence[BlindItem]) -> str:
    """Format the items that need no image as CSV."""
    lines = [(b.task, b.sample, b.right_count, b.asked_count, f"{b.p:.3g}") for b in blind]
    return format_csv([("task", "sample", "right", "asked", "p"), *lines])


@dataclass(frozen=True)
class ArmLine:
    """An arm of an audit as a table row; `kept_samples` are the samples of the cleaned set."""

    audit: Audit
    arm: str
    kept_samples: set[str]

    @property
    def scores(self) -> PointScores:
        """The scores of the arm."""
        return self.audit.arms[self.arm]

    @property
    def accuracy(self) -> Estimate | None:
        """The accuracy on the samples that the arm `seen` also answered."""
        return self.audit.values.mean(self.arm)

    @property
    def paired_difference(self) -> Estimate | None:
        """The paired difference from `seen`; None for `seen` itself."""
        return None if self.arm == "seen" else self.audit.values.compare_arms(self.arm, "seen")

    @property
    def cleaned_accuracy(self) -> str:
        """The accuracy on the cleaned set, and the number of its samples."""
        own = self.scores.comparable_values
        values = [own[name] for name in own if name in self.kept_samples]
        return f"{percent(fmean(values))}\nn = {len(values)}" if values else ""

    def compare_to_seen(self, measure: Callable[[str], float | None]) -> float | None:
        """Return the value of a measure for the arm; None for `seen`."""
        return None if self.arm == "seen" else measure(self.arm)


ARM_COLUMNS: Columns[ArmLine] = (
    *ARM_NAME_COLUMNS,
    Column("input", lambda line: ARM_DESCRIPTIONS[line.arm], text),
    Column("n", "accuracy.n"),
    Column("accuracy\n%", "accuracy", share_cell),
    Column("against seen", "paired_difference", change_cell),
    Column("p", "paired_difference.p", format_p),
    Column("mirage\nscore", lambda line: line.compare_to_seen(line.audit.compute_mirage), "{:.2f}"),
    Column("above\nchance", lambda line: line.compare_to_seen(line.audit.compute_excess), "{:.2f}"),
    Column("accuracy on\ncleaned set %", "cleaned_accuracy"),
)


def make_arm_table(audits: Sequence[Audit], blind: Sequence[BlindItem]) -> TextTable:
    """Build a table with a row for each arm: accuracy on all samples and on the cleaned set, and
    the mirage score."""
    lines = [ArmLine(audit, arm, audit.list_kept(blind)) for audit in audits for arm in audit.arms]
    return table(ARM_COLUMNS, [line for line in lines if line.accuracy])


BIAS_NOTE = (
    "A model that does not look has an answer bias: for words, for letters, and for repeating a"
    " guess. The bias is estimated from how often the model gives the wrong choices of its other"
    " questions; a question is listed if it is right more often than the bias explains. The power"
    " is given for questions that the model knows and answers right in"
    f" {KNOWN_RIGHT_SHARE:.0%} of the draws, if these are {LEAK_SHARE:.0%} of all questions."
)


def describe_power(audit: Audit) -> str:
    """Describe in a sentence how many of the known questions the draws of an audit can detect."""
    bias, draws = audit.bias, audit.draw_count
    power, needed = bias.compute_power(draws), bias.find_draws_needed()
    if needed is None:
        more = f"no number of draws up to {CANDIDATE_DRAW_COUNTS[-1]} reaches {TARGET_POWER:.0%}"
    else:
        more = f"{needed} draws would reach {TARGET_POWER:.0%}"
    if power == 0:
        return (
            f"{draws} draws per question cannot show that a question needs no image: in"
            f" {bias.firm_share:.0%} of the other questions the model repeats one wrong choice, so"
            f" it may repeat a right one by chance too; {more}"
        )
    return (
        f"{draws} draws per question would list {power:.0%} of the questions that the model knows"
        f" from their text; {more}"
    )


BIAS_COLUMNS: Columns[Audit] = (
    *attribute_columns("contestant", "task", of="seen_arm"),
    Column("bias estimated for", "bias.grouping.description", text),
    Column("questions", lambda audit: len(audit.items)),
    Column("draws", "draw_count"),
    Column("right\nby bias %", "bias.expected_right_share", percent),
    Column("repeats a\nwrong choice %", "bias.firm_share", percent),
    Column("power\n%", lambda audit: audit.bias.compute_power(audit.draw_count), percent),
    Column("detectable", lambda audit: describe_power(audit)),
)


def make_bias_table(audits: Sequence[Audit]) -> TextTable:
    """Build a table with a row for each audit: the accuracy expected from answer bias, and the
    power of its draws to detect known questions."""
    return table(BIAS_COLUMNS, [audit for audit in audits if audit.items])


@dataclass(frozen=True)
class LetterLine:
    """The letters that an arm answered, as a table row."""

    scores: PointScores
    bias: PositionBias

    @property
    def always_right(self) -> float | None:
        """The share of samples that are right in every draw; None with a single draw."""
        draws = [*map(self.scores.get_recorded_draws, self.scores.comparable_values)]
        if self.scores.point.draws < 2 or not draws:
            return None
        return fmean(all(entry.verdict is Verdict.RIGHT for entry in asked) for asked in draws)


def _format_letter_shares(shares: Mapping[str, float]) -> str:
    return " ".join(f"{letter} {100 * share:.0f}" for letter, share in shares.items())


LETTER_COLUMNS: Columns[LetterLine] = (
    *ARM_NAME_COLUMNS,
    Column("answers", "bias.n"),
    Column("answered, by letter %", "bias.chosen_shares", _format_letter_shares),
    Column("right, by correct letter %", "bias.recalls", _format_letter_shares),
    Column("spread of\nrecall", "bias.spread", "{:.3f}"),
    Column("p", "bias.p", format_p),
    Column("right in\nevery draw %", "always_right", percent),
)


def make_letter_table(run: RunScores, audits: Sequence[Audit]) -> TextTable:
    """Build a table with a row for each arm with choices: the frequency of each letter, the recall
    by the key's position, and the share of questions that are right in all draws."""
    letters = dict[str, Mapping[ChosenLetter, int]]()
    for scores, counts in count_letters(run):
        readable = [one for one in counts if one.verdict in (Verdict.RIGHT, Verdict.WRONG)]
        letters[scores.point.id] = {one: counts[one] for one in readable}
    arms = {arm.point.id: arm for audit in audits for arm in audit.arms.values()}
    lines = [
        LetterLine(arm, measure_bias(letters[name]))
        for name, arm in arms.items()
        if letters.get(name)
    ]
    return table(LETTER_COLUMNS, lines).without_empty()


def describe_audit(audits: Sequence[Audit], blind: Sequence[BlindItem], rule: Rule) -> list[str]:
    """Describe the findings of the audit in sentences."""
    sentences = []
    for audit in audits:
        chance = fmean(audit.chance.values())
        for arm in BLIND_ARMS:
            means = audit.compute_means(arm) if arm in audit.arms else None
            if means and means[1] > 0:
                sentences.append(
                    f"{audit.seen_arm.task}: accuracy is {100 * means[1]:.1f} % with the image and"
                    f" {100 * means[0]:.1f} % in the arm {arm}: mirage score"
                    f" {means[0] / means[1]:.2f}; chance is {100 * chance:.1f} %."
                )
        if audit.items and rule == "chance":
            sentences.append(f"{audit.seen_arm.task}: {describe_power(audit)}.")
    asked = len({(item.task, item.sample) for audit in audits for item in audit.items})
    words = (
        "any right answer without the image"
        if rule == "any"
        else "more right answers than answer bias explains"
    )
    bound, count = "about" if rule == "any" else "at most", count_expected_by_chance(audits, rule)
    luck = f"{bound} {count:.1f} of them are expected by chance"
    sentences.append(f"{len(blind)} of {asked} items need no image, by {words}; {luck}.")
    return sentences


def make_audit_page(run: RunScores, audits: Sequence[Audit], rule: Rule = "chance") -> str:
    """Return the audit as a Markdown page; the full list of items is in the CSV."""
    blind = find_imageless_items(audits, rule)
    parts = [f"# What {run.name} answers without its images", *describe_audit(audits, blind, rule)]
    parts += ["## Arms", make_arm_table(audits, blind).markdown]
    parts += ["## What could be detected", make_bias_table(audits).markdown, BIAS_NOTE]
    letters = make_letter_table(run, audits)
    parts += ["## Letters and positions", letters.markdown] if letters.rows else []
    named = ", ".join(item.sample for item in blind[:50]) + (", ..." if len(blind) > 50 else "")
    parts += ["## Items that need no image", named or "none"]
    return "\n\n".join(parts) + "\n"
