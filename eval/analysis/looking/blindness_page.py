"""What an audit of blindness says: its tables, its page, the items that need no image, and the
subset of those that do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from looktwice.eval.analysis.looking.blindness import (
    ARMS,
    WITHOUT,
    Audit,
    BlindItem,
    Rule,
    expected_by_luck,
    needs_no_image,
)
from looktwice.eval.analysis.looking.tastes import LEAKS, POWER, STRENGTH, TRIED_DRAWS
from looktwice.eval.display.printable import csv_text
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    change_cell,
    format_p,
    percent,
    share_cell,
    table,
    text,
)
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.answers import PositionBias, position_bias
from looktwice.eval.statistics.intervals import Estimate
from looktwice.pipelines.config.yaml_input import dump_yaml


def clean_subset(run: RunScores, audits: Sequence[Audit], blind: Sequence[BlindItem]) -> str:
    """The samples that are left, as a piece of a configuration that goes over the study's."""
    nodes = {}
    for audit in audits:
        kept = _kept(audit, blind)
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


def _kept(audit: Audit, blind: Sequence[BlindItem]) -> set[str]:
    """The samples of the cleaned set."""
    left_out = {item.sample for item in blind if item.task == audit.seen.point.task}
    return audit.seen.samples.keys() - left_out


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


ARM_COLUMNS: Sequence[Column[ArmLine]] = (
    Column("contestant", "scores.contestant", text),
    Column("task", "scores.task", text),
    Column("what it gets", lambda line: ARMS[line.arm], text),
    Column("n", "accuracy.n"),
    Column("accuracy\n%", "accuracy", share_cell),
    Column("against seen", "paired", change_cell),
    Column("p", lambda line: line.paired and line.paired.p, format_p),
    Column("mirage\nscore", lambda line: line.beside(line.audit.mirage), "{:.2f}".format),
    Column("above\nchance", lambda line: line.beside(line.audit.beyond_chance), "{:.2f}".format),
    Column("accuracy on\ncleaned set %", "cleaned"),
)


def arm_table(audits: Sequence[Audit], blind: Sequence[BlindItem]) -> TextTable:
    """A line for each arm: its accuracy, on all samples and on the cleaned set, and its mirage
    score."""
    lines = [ArmLine(audit, arm, _kept(audit, blind)) for audit in audits for arm in audit.arms]
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


TASTE_COLUMNS: Sequence[Column[Audit]] = (
    Column("contestant", "seen.contestant", text),
    Column("task", "seen.task", text),
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
        draws = [self.scores.asked(sample) for sample in self.scores.comparable]
        if self.scores.point.draws < 2 or not draws:
            return None
        return fmean(all(entry.verdict is Verdict.RIGHT for entry in asked) for asked in draws)


def _by_letter(shares: Mapping[str, float]) -> str:
    return " ".join(f"{letter} {100 * share:.0f}" for letter, share in shares.items())


LETTER_COLUMNS: Sequence[Column[LetterLine]] = (
    Column("contestant", "scores.contestant", text),
    Column("task", "scores.task", text),
    Column("answers", "bias.n"),
    Column("said, by letter %", "bias.chosen", _by_letter),
    Column("right where it is the key %", "bias.recall", _by_letter),
    Column("spread of\nrecall", "bias.spread", "{:.3f}".format),
    Column("p", "bias.p", format_p),
    Column("right in\nevery draw %", "always_right", percent),
)


def letter_table(run: RunScores, audits: Sequence[Audit]) -> TextTable:
    """A line for each arm with choices: how often each letter was said, recall by the key's place,
    all draws right."""
    arms = {scores.point.id: scores for audit in audits for scores in audit.arms.values()}
    letters = _letters_as_asked(run)
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


def _letters_as_asked(run: RunScores) -> dict[str, list[tuple[str, str]]]:
    """Of each arm, the letters that were said and those of the keys, as the choices stood when they
    were asked."""
    letters = defaultdict[str, list[tuple[str, str]]](list)
    for scores, record in run.records():
        row, entry = scores.samples.get(record.sample), scores.result_of(record)
        if row is None or entry is None or row.answer is None or not row.sample["choices"]:
            continue
        if entry.verdict in (Verdict.RIGHT, Verdict.WRONG) and entry.answer is not None:
            shown = {own: asked for asked, own in (record.letters or {}).items()}
            letters[scores.point.id].append(
                (shown.get(entry.answer, entry.answer), shown.get(row.answer, row.answer))
            )
    return letters
