"""How much of a benchmark a model answers without its images: arms, mirage scores, items that need
none, letters.

The arms go by the names of their contestants, those of `configs/blindness.yaml`. After Mirage
(arXiv 2603.21687): its score is accuracy without the image, asked as if it were there, by accuracy
with it; its cleaned set drops every item that any model solves without the image.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import fmean
from string import ascii_uppercase
from typing import Literal

from looktwice.eval.analysis.looking.tastes import (
    FALSE_SHARE,
    LEAKS,
    POWER,
    STRENGTH,
    TRIED_DRAWS,
    BlindQuestion,
    Tastes,
    find_tastes,
)
from looktwice.eval.display.printable import csv_text
from looktwice.eval.display.text_tables import (
    TextTable,
    estimate_cell,
    format_p,
    percent,
    share_cell,
)
from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.labels import contestant_changes
from looktwice.eval.scoring.score import compare_with_key
from looktwice.eval.scoring.verdict import PointScores, ReadResult, RunScores, Verdict
from looktwice.eval.statistics.answers import position_bias
from looktwice.eval.statistics.intervals import share_interval
from looktwice.eval.statistics.paired import benjamini_hochberg, compare_paired
from looktwice.pipelines.config.yaml_input import dump_yaml
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

    def mirage(self, arm: str) -> float | None:
        """Accuracy of an arm by that of the seen one, on the samples of both; None where nothing is
        right when seen."""
        mine, seen, _ = self._pair(arm)
        return fmean(mine) / fmean(seen) if seen and fmean(seen) > 0 else None

    def beyond_chance(self, arm: str) -> float | None:
        """The same of what lies above chance; None where nothing does when seen."""
        mine, seen, names = self._pair(arm)
        chance = fmean(self.chance[name] for name in names) if names else 1.0
        return (
            (fmean(mine) - chance) / (fmean(seen) - chance)
            if seen and fmean(seen) > chance
            else None
        )

    def _pair(self, arm: str) -> tuple[list[float], list[float], list[str]]:
        """The values of an arm and of the seen one on the samples of both, and their names."""
        mine, seen = self.arms[arm].comparable, self.seen.comparable
        both = [name for name in seen if name in mine]
        return [mine[name] for name in both], [seen[name] for name in both], both

    def lines(self, kept: set[str]) -> Iterator[tuple[str, ...]]:
        """A line for each arm; `kept` are the samples of the cleaned set."""
        for arm, scores in self.arms.items():
            mine, seen, names = self._pair(arm)
            if not mine:
                continue
            clusters = [self.seen.clusters[name] for name in names]
            share, found = share_interval(mine, clusters), compare_paired(mine, seen, clusters)
            clean = [value for name, value in scores.comparable.items() if name in kept]
            gap = estimate_cell(found, sign=True)
            scored = (
                f"{x:.2f}" if arm != "seen" and x is not None else ""
                for x in (self.mirage(arm), self.beyond_chance(arm))
            )
            yield (
                scores.contestant,
                scores.task,
                ARMS[arm],
                str(len(mine)),
                share_cell(share),
                "" if arm == "seen" else gap,
                "" if arm == "seen" else format_p(found.p),
                *scored,
                f"{percent(fmean(clean))}\nn = {len(clean)}" if clean else "",
            )


def audits(run: RunScores) -> list[Audit]:
    """The audit of every task and model of a run that has the arms `seen` and `no-image` or
    `blank`."""
    found: dict[str, dict[str, PointScores]] = defaultdict(dict)
    for scores in run.points:
        if scores.point.contestant in ARMS and scores.all:
            group = canonical([scores.point.task_id, contestant_changes(scores.point)])
            found[group][scores.point.contestant] = scores
    ordered = ({name: arms[name] for name in ARMS if name in arms} for arms in found.values())
    return [
        Audit(arms) for arms in ordered if "seen" in arms and any(arm in arms for arm in WITHOUT)
    ]


def listed_by_taste(tastes: Tastes) -> list[BlindQuestion]:
    """The questions that are right more often than by taste, with FALSE_SHARE false ones among
    them."""
    corrected = benjamini_hochberg(tastes.ps.tolist())
    return [row for row, p in zip(tastes.questions, corrected, strict=True) if p <= FALSE_SHARE]


def needs_no_image(found: Sequence[Audit], rule: Rule = "chance") -> list[BlindItem]:
    """The items that any of the models solves without the image.

    By `any`, one right answer suffices, as in Mirage's cleaned set; then luck is among them. By
    `chance`, the right answers of a model must be more than its tastes give, with `FALSE_SHARE`
    false finds (Benjamini and Hochberg 1995).
    """
    listed: dict[tuple[str, str], BlindItem] = {}
    for audit in found:
        by_taste = {question.sample for question in listed_by_taste(audit.tastes)}
        for item in audit.items:
            if item.right > 0 if rule == "any" else item.sample in by_taste:
                listed.setdefault((item.task, item.sample), item)
    return list(listed.values())


def expected_by_luck(found: Sequence[Audit], rule: Rule) -> float:
    """How many items the rule `any` lists by the models' tastes alone; by `chance`, the bound on
    false finds."""
    if rule == "chance":
        return FALSE_SHARE * sum(
            len(needs_no_image([audit])) for audit in found
        )  # each model has false finds of its own
    lucky: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for audit in found:
        tails = {draws: audit.tastes.tails(draws) for draws in {item.asked for item in audit.items}}
        for number, item in enumerate(audit.items):
            lucky[item.task, item.sample] *= 1 - float(tails[item.asked][number, 1])
    return sum(1 - never for never in lucky.values())


def clean_subset(run: RunScores, found: Sequence[Audit], blind: Sequence[BlindItem]) -> str:
    """The samples that are left, as a piece of a configuration that goes over the study's."""
    left_out = {(item.task, item.sample) for item in blind}
    short = "task" in run.config
    nodes = {}
    for audit in found:
        task = audit.seen.point.task
        nodes[task] = {
            "subset": {"ids": [name for name in audit.seen.samples if (task, name) not in left_out]}
        }
    plain = {"task": next(iter(nodes.values()))} if short and len(nodes) == 1 else {"tasks": nodes}
    head = (
        f"# The samples of {run.name} that need their image: {len(left_out)} that do not are left"
        " out.\n# Run it with a file that says `include: [STUDY.yaml, clean.yaml]`; `score RUN"
        " --only clean.yaml` shows it.\n"
    )
    return head + dump_yaml(plain)


def blind_items_csv(blind: Sequence[BlindItem]) -> str:
    """The listed items as CSV."""
    lines = [(item.task, item.sample, item.right, item.asked, f"{item.p:.3g}") for item in blind]
    return csv_text([("task", "sample", "right", "asked", "p"), *lines])


def arm_table(found: Sequence[Audit], blind: Sequence[BlindItem]) -> TextTable:
    """A line for each arm: its accuracy, on all samples and on the cleaned set, and its mirage
    score."""
    header = (
        "contestant",
        "task",
        "what it gets",
        "n",
        "accuracy\n%",
        "against seen",
        "p",
        "mirage\nscore",
        "above\nchance",
        "accuracy on\ncleaned set %",
    )
    left_out = {(item.task, item.sample) for item in blind}
    rows = []
    for audit in found:
        kept = {
            name for name in audit.seen.samples if (audit.seen.point.task, name) not in left_out
        }
        rows += list(audit.lines(kept))
    return TextTable(header, rows, text_columns=3)


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


def taste_table(found: Sequence[Audit]) -> TextTable:
    """A line for each audit: what its model reaches by its tastes, and which share of leaks its
    draws would show."""
    header = (
        "contestant",
        "task",
        "tastes are told by",
        "questions",
        "draws",
        "right\nby taste %",
        "keeps to a\nwrong one %",
        "power\n%",
        "what could be listed",
    )
    rows = []
    for audit in found:
        if not audit.items:
            continue
        tastes = audit.tastes
        shares = (tastes.expected, tastes.firm, tastes.power(audit.draws))
        rows.append(
            (
                audit.seen.contestant,
                audit.seen.task,
                tastes.grouping.words,
                str(len(audit.items)),
                str(audit.draws),
                *map(percent, shares),
                say_power(audit),
            )
        )
    return TextTable(header, rows, text_columns=3)


def letter_table(run: RunScores, found: Sequence[Audit]) -> TextTable:
    """A line for each arm with choices: how often each letter was said, recall by the key's place,
    all draws right."""
    header = (
        "contestant",
        "task",
        "answers",
        "said, by letter %",
        "right where it is the key %",
        "spread of\nrecall",
        "p",
        "right in\nevery draw %",
    )
    arms = {scores.point.id: scores for audit in found for scores in audit.arms.values()}
    said = _letters_as_asked(run)
    rows = []
    for name, scores in arms.items():
        pairs = said.get(name, ())
        if not pairs:
            continue
        bias = position_bias(*zip(*pairs, strict=True))
        shares = (
            " ".join(f"{k} {100 * v:.0f}" for k, v in each.items())
            for each in (bias.chosen, bias.recall)
        )
        draws = [
            [e.verdict is Verdict.RIGHT for e in scores.asked(sample)]
            for sample in scores.comparable
        ]
        whole = percent(fmean(map(all, draws))) if scores.point.draws > 1 and draws else ""
        rows.append(
            (
                scores.contestant,
                scores.task,
                str(bias.n),
                *shares,
                f"{bias.spread:.3f}",
                format_p(bias.p),
                whole,
            )
        )
    return TextTable(header, rows, text_columns=2).without_empty()


def audit_sentences(found: Sequence[Audit], blind: Sequence[BlindItem], rule: Rule) -> list[str]:
    """What the audit finds, in words."""
    said = []
    for audit in found:
        chance = fmean(audit.chance.values())
        for arm in WITHOUT:
            if arm in audit.arms and (score := audit.mirage(arm)) is not None:
                mine, seen, _ = audit._pair(arm)
                said.append(
                    f"{audit.seen.task}: {100 * fmean(seen):.1f} % are right with the image and"
                    f" {100 * fmean(mine):.1f} % in the arm {arm}: mirage score {score:.2f}; chance"
                    f" is {100 * chance:.1f} %."
                )
        if audit.items and rule == "chance":
            said.append(f"{audit.seen.task}: {say_power(audit)}.")
    asked = len({(item.task, item.sample) for audit in found for item in audit.items})
    words = (
        "any right answer without the image"
        if rule == "any"
        else "more right answers than tastes give"
    )
    luck = (
        f"{'about' if rule == 'any' else 'at most'} {expected_by_luck(found, rule):.1f} of them are"
        " expected by luck"
    )
    said.append(f"{len(blind)} of {asked} items need no image, by {words}; {luck}.")
    return said


def audit_page(run: RunScores, found: Sequence[Audit], rule: Rule = "chance") -> str:
    """The page of the audit as Markdown; the whole list of items stands in the CSV beside it."""
    blind = needs_no_image(found, rule)
    parts = [f"# What {run.name} answers without its images", *audit_sentences(found, blind, rule)]
    parts += ["## Arms", arm_table(found, blind).markdown]
    parts += ["## What could be listed", taste_table(found).markdown, TASTE_NOTE]
    letters = letter_table(run, found)
    parts += ["## Letters and their places", letters.markdown] if letters.rows else []
    named = ", ".join(item.sample for item in blind[:50]) + (", ..." if len(blind) > 50 else "")
    parts += ["## Items that need no image", named or "none"]
    return "\n\n".join(parts) + "\n"


def _blind_question(arm: PointScores, name: str, row: SampleRow) -> BlindQuestion:
    """What an arm says to a sample with a key in the draws that did not fail, choices as their
    texts."""
    asked = arm.not_failed(name)
    choices = dict(zip(ascii_uppercase, map(_text_of, row.sample["choices"]), strict=False))
    answers = Counter(
        choices.get(entry.answer.strip(), entry.answer)
        for entry in asked
        if entry.answer is not None
    )

    @cache
    def accepts(answer: str) -> bool:
        return compare_with_key(ReadResult(answer=answer), row, arm.scorer).verdict is Verdict.RIGHT

    key, right = str(row.answer), sum(entry.verdict is Verdict.RIGHT for entry in asked)
    texts, question = tuple(choices.values()), row.sample["question"]
    return BlindQuestion(
        name, question, texts, choices.get(key, key), answers, len(asked), right, accepts
    )


def _text_of(choice: object) -> str:
    return choice.casefold() if isinstance(choice, str) else canonical(choice)


def _letters_as_asked(run: RunScores) -> dict[str, list[tuple[str, str]]]:
    """Of each arm, the letters that were said and those of the keys, as the choices stood when they
    were asked."""
    found = defaultdict[str, list[tuple[str, str]]](list)
    for scores, record in run.records():
        row, entry = scores.samples.get(record.sample), scores.result_of(record)
        if row is None or entry is None or row.answer is None or not row.sample["choices"]:
            continue
        if entry.verdict in (Verdict.RIGHT, Verdict.WRONG) and entry.answer is not None:
            shown = {own: asked for asked, own in (record.letters or {}).items()}
            found[scores.point.id].append(
                (shown.get(entry.answer, entry.answer), shown.get(row.answer, row.answer))
            )
    return found
