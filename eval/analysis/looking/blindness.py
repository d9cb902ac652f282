"""How much of a benchmark a model answers without its images: arms, mirage scores, items that need none, letters.

The arms go by the names of their contestants, those of `configs/blindness.yaml`. After Mirage (arXiv 2603.21687): its
score is accuracy without the image, asked as if it were there, by accuracy with it; its cleaned set drops every item
that any model solves without the image.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Literal

from looktwice.eval.display.text_tables import TextTable, format_p, percent, with_interval
from looktwice.eval.scoring.labels import contestant_changes
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.choices import position_bias
from looktwice.eval.statistics.paired import compare_paired
from looktwice.eval.statistics.shares import wilson
from looktwice.eval.statistics.significance import benjamini_hochberg
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
"""The arms by which an item is found to need no image, the first of them that a run has: of a model that answers from
the words alone, the same words in the other are the same guess again, and no second try."""
FALSE_SHARE = 0.01
"""The share of false finds among the items that are listed (Benjamini-Hochberg)."""

Rule = Literal["chance", "any"]


@dataclass(frozen=True)
class BlindItem:
    """How often a question was answered right without its image, and how likely that is by chance alone."""

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
        """The chance of each sample with a key: one over its choices, of open ones the share of the commonest key."""
        keyed = {name: row for name, row in self.seen.samples.items() if row.answer is not None}
        keys = Counter(row.answer for row in keyed.values() if not row.sample["choices"])
        common = max(keys.values(), default=0) / max(1, sum(keys.values()))
        return {
            name: 1 / len(row.sample["choices"]) if row.sample["choices"] else common for name, row in keyed.items()
        }

    @cached_property
    def items(self) -> list[BlindItem]:
        """Every sample that was asked without its image, with the binomial tail of its right answers."""
        from scipy.special import bdtrc

        out = []
        arm = next(self.arms[name] for name in WITHOUT if name in self.arms)
        for name, chance in self.chance.items():
            asked = [entry for entry in arm.asked(name) if entry.verdict is not Verdict.FAILED]
            right = sum(entry.verdict is Verdict.RIGHT for entry in asked)
            p = float(bdtrc(right - 1, len(asked), chance)) if right and chance < 1 else 1.0
            if asked:
                out.append(BlindItem(self.seen.point.task, name, right, len(asked), p))
        return out

    def mirage(self, arm: str) -> float | None:
        """Accuracy of an arm by that of the seen one, on the samples of both; None where nothing is right when seen."""
        mine, seen, _ = self._pair(arm)
        return fmean(mine) / fmean(seen) if seen and fmean(seen) > 0 else None

    def beyond_chance(self, arm: str) -> float | None:
        """The same of what lies above chance; None where nothing does when seen."""
        mine, seen, names = self._pair(arm)
        chance = fmean(self.chance[name] for name in names) if names else 1.0
        return (fmean(mine) - chance) / (fmean(seen) - chance) if seen and fmean(seen) > chance else None

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
            (low, high), found = wilson(sum(mine), len(mine)), compare_paired(mine, seen, clusters)
            clean = [value for name, value in scores.comparable.items() if name in kept]
            gap = with_interval(found.value, found.low, found.high, sign=True)
            scored = (
                f"{x:.2f}" if arm != "seen" and x is not None else ""
                for x in (self.mirage(arm), self.beyond_chance(arm))
            )
            yield (
                scores.contestant, scores.task, ARMS[arm], str(len(mine)),
                f"{percent(fmean(mine))}\n{percent(low)}–{percent(high)}", "" if arm == "seen" else gap,
                "" if arm == "seen" else format_p(found.p), *scored,
                f"{percent(fmean(clean))}\nn = {len(clean)}" if clean else "",
            )  # fmt: skip


def audits(run: RunScores) -> list[Audit]:
    """The audit of every task and model of a run that has the arms `seen` and `no-image` or `blank`."""
    found: dict[str, dict[str, PointScores]] = defaultdict(dict)
    for scores in run.points:
        if scores.point.contestant in ARMS and scores.all:
            group = canonical([scores.point.task_id, contestant_changes(scores.point)])
            found[group][scores.point.contestant] = scores
    ordered = ({name: arms[name] for name in ARMS if name in arms} for arms in found.values())
    return [Audit(arms) for arms in ordered if "seen" in arms and any(arm in arms for arm in WITHOUT)]


def needs_no_image(found: Sequence[Audit], rule: Rule = "chance") -> list[BlindItem]:
    """The items that any of the models solves without the image.

    By `any`, one right answer suffices, as in Mirage's cleaned set; then luck is among them. By `chance`, the right
    answers of a model must be more than chance gives, with `FALSE_SHARE` false finds (Benjamini and Hochberg 1995).
    Draws of a model that never varies are not the independent tries for which this holds.
    """
    listed: dict[tuple[str, str], BlindItem] = {}
    for audit in found:
        corrected = benjamini_hochberg([item.p for item in audit.items])
        for item, p in zip(audit.items, corrected, strict=True):
            if (item.right > 0) if rule == "any" else p <= FALSE_SHARE:
                listed.setdefault((item.task, item.sample), item)
    return list(listed.values())


def expected_by_luck(found: Sequence[Audit], rule: Rule) -> float:
    """How many items the rule `any` lists if a model only guesses; by `chance`, the bound on false finds."""
    if rule == "chance":
        return FALSE_SHARE * sum(
            len(needs_no_image([audit])) for audit in found
        )  # each model has false finds of its own
    lucky: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for audit in found:
        for item in audit.items:
            lucky[item.task, item.sample] *= (1 - audit.chance[item.sample]) ** item.asked
    return sum(1 - never for never in lucky.values())


def clean_subset(run: RunScores, found: Sequence[Audit], blind: Sequence[BlindItem]) -> str:
    """The samples that are left, as a piece of a configuration that goes over the study's."""
    left_out = {(item.task, item.sample) for item in blind}
    short = "task" in (run.folder.facts.get("config") or {})
    nodes = {}
    for audit in found:
        task = audit.seen.point.task
        nodes[task] = {"subset": {"ids": [name for name in audit.seen.samples if (task, name) not in left_out]}}
    plain = {"task": next(iter(nodes.values()))} if short and len(nodes) == 1 else {"tasks": nodes}
    head = (
        f"# The samples of {run.name} that need their image: {len(left_out)} that do not are left out.\n"
        "# Run it with a file that says `include: [STUDY.yaml, clean.yaml]`; `score RUN --only clean.yaml` shows it.\n"
    )
    return head + dump_yaml(plain)


def blind_items_csv(blind: Sequence[BlindItem]) -> str:
    """The listed items as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("task", "sample", "right", "asked", "p"))
    writer.writerows((item.task, item.sample, item.right, item.asked, f"{item.p:.3g}") for item in blind)
    return out.getvalue()


def arm_table(found: Sequence[Audit], blind: Sequence[BlindItem]) -> TextTable:
    """A line for each arm: its accuracy, on all samples and on the cleaned set, and its mirage score."""
    header = (
        "contestant", "task", "what it gets", "n", "accuracy\n%", "against seen", "p", "mirage\nscore",
        "above\nchance", "accuracy on\ncleaned set %",
    )  # fmt: skip
    left_out = {(item.task, item.sample) for item in blind}
    rows = []
    for audit in found:
        kept = {name for name in audit.seen.samples if (audit.seen.point.task, name) not in left_out}
        rows += list(audit.lines(kept))
    return TextTable(header, tuple(rows), text_columns=3)


def letter_table(run: RunScores, found: Sequence[Audit]) -> TextTable:
    """A line for each arm with choices: how often each letter was said, recall by the key's place, all draws right."""
    header = (
        "contestant", "task", "answers", "said, by letter %", "right where it is the key %", "spread of\nrecall", "p",
        "right in\nevery draw %",
    )  # fmt: skip
    arms = {scores.point.id: scores for audit in found for scores in audit.arms.values()}
    said = _letters_as_asked(run)
    rows = []
    for name, scores in arms.items():
        pairs = said.get(name, ())
        if not pairs:
            continue
        bias = position_bias([answer for answer, _ in pairs], [key for _, key in pairs])
        shares = (" ".join(f"{k} {100 * v:.0f}" for k, v in each.items()) for each in (bias.chosen, bias.recall))
        draws = [[e.verdict is Verdict.RIGHT for e in scores.asked(sample)] for sample in scores.comparable]
        whole = percent(fmean(map(all, draws))) if scores.point.draws > 1 and draws else ""
        rows.append((
            scores.contestant, scores.task, str(bias.n), *shares, f"{bias.spread:.3f}", format_p(bias.p), whole,
        ))  # fmt: skip
    return TextTable(header, tuple(rows), text_columns=2).without_empty()


def audit_sentences(found: Sequence[Audit], blind: Sequence[BlindItem], rule: Rule) -> list[str]:
    """What the audit finds, in words."""
    said = []
    for audit in found:
        chance = fmean(audit.chance.values())
        for arm in WITHOUT:
            if arm in audit.arms and (score := audit.mirage(arm)) is not None:
                mine, seen, _ = audit._pair(arm)
                said.append(
                    f"{audit.seen.task}: {100 * fmean(seen):.1f} % are right with the image and "
                    f"{100 * fmean(mine):.1f} % in the arm {arm}: mirage score {score:.2f}; chance is "
                    f"{100 * chance:.1f} %."
                )
    asked = len({(item.task, item.sample) for audit in found for item in audit.items})
    words = "any right answer without the image" if rule == "any" else "more right answers than chance gives"
    luck = f"{'about' if rule == 'any' else 'at most'} {expected_by_luck(found, rule):.1f} of them are expected by luck"
    said.append(f"{len(blind)} of {asked} items need no image, by {words}; {luck}.")
    return said


def audit_page(run: RunScores, found: Sequence[Audit], rule: Rule = "chance") -> str:
    """The page of the audit as Markdown; the whole list of items stands in the CSV beside it."""
    blind = needs_no_image(found, rule)
    parts = [f"# What {run.name} answers without its images", *audit_sentences(found, blind, rule)]
    parts += ["## Arms", arm_table(found, blind).markdown]
    letters = letter_table(run, found)
    parts += ["## Letters and their places", letters.markdown] if letters.rows else []
    named = ", ".join(item.sample for item in blind[:50]) + (", ..." if len(blind) > 50 else "")
    parts += ["## Items that need no image", named or "none"]
    return "\n\n".join(parts) + "\n"


def _letters_as_asked(run: RunScores) -> dict[str, list[tuple[str, str]]]:
    """Of each arm, the letters that were said and those of the keys, as the choices stood when they were asked."""
    found = defaultdict[str, list[tuple[str, str]]](list)
    for scores, record in run.records():
        row, entry = scores.samples.get(record.sample), scores.scored.get(record.sample, {}).get(record.draw)
        if row is None or entry is None or row.answer is None or not row.sample["choices"]:
            continue
        if entry.verdict in (Verdict.RIGHT, Verdict.WRONG) and entry.answer is not None:
            shown = {own: asked for asked, own in (record.letters or {}).items()}
            found[scores.point.id].append((shown.get(entry.answer, entry.answer), shown.get(row.answer, row.answer)))
    return found
