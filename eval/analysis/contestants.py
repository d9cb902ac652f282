"""Contestants against their baseline and with one another: differences, shared errors, what an
oracle would reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import fmean

from looktwice.eval.display.score_tables import contestant_of, delta_cell
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    estimate_cell,
    format_p,
    percent,
    some,
    table,
    text,
)
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import UNJUDGED, PointScores, RunScores, Verdict
from looktwice.eval.statistics.answers import cohens_kappa, fleiss_kappa, majority_value
from looktwice.eval.statistics.intervals import bootstrap_mean, cluster_codes
from looktwice.eval.statistics.paired import benjamini_hochberg, compare_paired, holm
from looktwice.eval.statistics.settings import swap_over_halves

MAX_CONTESTANTS = 12  # more make the table unreadable
MAX_ANSWERS = 24  # more are no choices but free words, of which kappa says little

Question = tuple[str, str]
"""Task id and sample."""

COMPARISON_NOTE = (
    "Each arm less its baseline, on the units that both have and neither failed; `left out` counts"
    " the others. The difference is in percentage points with its 95 % bootstrap interval over"
    " clusters: units of one group or picture are drawn together. p is two-sided by the test that"
    " is named; of accuracy it is corrected by Holm and by Benjamini and Hochberg over all lines on"
    " single tasks, and over those of micro. `would show` is the smallest difference that so many"
    " units, with answers that differ as often, show with 80 % power at 5 % (Connor 1987)."
)
PAIR_NOTE = (
    "Each two contestants on the questions with a key that both were asked and neither failed, over"
    " all tasks; unreadable answers are mistakes. Difference: the first less the other, with its 95"
    " % bootstrap interval over clusters (questions of one group or picture are drawn together); p"
    " is exact, and corrected over the lines of this table. Kappa is the agreement of right and"
    " wrong beyond that of independent contestants (Cohen 1960; error consistency of Geirhos et al."
    " 2020). `new halves swap`: how probably two new sets of half as many questions put the two in"
    " opposite orders, were the difference as measured; at most 50 %. Counts, oracle and kappa are"
    " of the first draw."
)
ORACLE_NOTE = (
    "All contestants on the questions that each was asked and none failed, first draw. The oracle"
    " takes the right answer of any of them, the majority their most frequent answer (of equally"
    " frequent ones the mean). Fleiss' kappa (1971) is over their answers, where these are choices,"
    " unreadable being an answer of its own. Intervals: 95 %, bootstrap over clusters."
)


@dataclass(frozen=True)
class Contestant:
    """What a contestant, with its changes, made of every question with a key that it did not fail.

    `values` are means over draws; `hits` and `answers` are of the first draw; `clusters` names what
    a question shares with others. A task that was asked in several variants is in one cluster per
    question.
    """

    name: str
    values: Mapping[Question, float]
    hits: Mapping[Question, bool]
    answers: Mapping[Question, str | None]
    clusters: Mapping[Question, str]

    @cached_property
    def wrong(self) -> frozenset[Question]:
        """The questions that it did not answer right.

        Unreadable answers count as errors, as in BLINK's own comparison of models (App. C.2);
        FAILED samples say nothing about the contestant and count as not asked.
        """
        return frozenset(question for question, hit in self.hits.items() if not hit)

    def common_errors(self, other: Contestant) -> tuple[int, int, int]:
        """Errors of both, of this one and of the other, over the questions that both were asked."""
        both = self.hits.keys() & other.hits.keys()
        return len(self.wrong & other.wrong), len(self.wrong & both), len(other.wrong & both)


def contestants(run: RunScores, task: str = "") -> list[Contestant]:
    """The contestants of a run in its order, on all tasks or on the one with this label."""
    found: dict[str, list[PointScores]] = {}
    for scores in run.points:
        if task in ("", scores.task):
            found.setdefault(scores.contestant, []).append(scores)
    return [_contestant(name, arms) for name, arms in found.items()]


def _contestant(name: str, arms: Sequence[PointScores]) -> Contestant:
    hits = {
        (arm.point.task_id, sample): hit
        for arm in arms
        for sample, hit in right_on_first_draw(arm).items()
    }
    places = [(arm, (arm.point.task_id, sample), sample) for arm in arms for sample in arm.samples]
    asked = [place for place in places if place[1] in hits]
    values = {question: arm.comparable[sample] for arm, question, sample in asked}
    answers = {
        question: first.answer if (first := arm.first(sample)) else None
        for arm, question, sample in asked
    }
    clusters = {question: arm.clusters[sample] for arm, question, sample in asked}
    return Contestant(name, values, hits, answers, clusters)


def right_on_first_draw(scores: PointScores) -> Mapping[str, bool]:
    """Whether the first draw of each sample with a key is right; without what FAILED or no judge
    has scored."""
    firsts = {name: scores.first(name) for name in scores.keyed}
    return {
        name: first.verdict is Verdict.RIGHT
        for name, first in firsts.items()
        if first is not None and first.verdict is not Verdict.FAILED and first.reason != UNJUDGED
    }


def _worse(row: Row) -> int | None:
    return None if row.better is None or row.discordant is None else row.discordant - row.better


COMPARISON = (
    Column("contestant", contestant_of, text),
    Column[Row]("task", "task", text),
    Column[Row]("metric", "metric", text),
    Column[Row]("against", "baseline", text),
    Column[Row]("unit", "unit", text),
    Column[Row]("test", "test", text),
    Column("difference", delta_cell),
    Column[Row]("p", "p", format_p),
    Column[Row]("p\n(Holm)", "p_holm", format_p),
    Column[Row]("p\n(BH)", "p_bh", format_p),
    Column[Row]("would\nshow", "detectable", percent),
    Column[Row]("n", "compared"),
    Column[Row]("clusters", "n_clusters"),
    Column[Row]("better", "better"),
    Column("worse", _worse),
    Column[Row]("left\nout", "excluded", some),
)


def comparison_table(rows: Sequence[Row]) -> TextTable:
    """Every arm and metric against its baseline: how much better, how sure, and what so many units
    could show."""
    lines = [row for row in rows if row.delta is not None and row.n_clusters is not None]
    return table(COMPARISON, [row for row in lines if not row.slice]).without_empty()


def pair_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each two contestants; only for a single run, and for no more contestants than a
    table can hold."""
    found = [one for one in contestants(runs[0]) if one.hits] if len(runs) == 1 else []
    header = (
        "contestant",
        "other",
        "difference",
        "p",
        "p\n(Holm)",
        "p\n(BH)",
        "n",
        "left\nout",
        "both\nright",
        "only\nfirst",
        "only\nother",
        "mistakes\nshared",
        "kappa",
        "either %\n(oracle)",
        "new halves\nswap %",
    )
    lines, ps = [], []
    for first, other in combinations(found, 2) if len(found) <= MAX_CONTESTANTS else ():
        if both := [question for question in first.hits if question in other.hits]:
            p, line = _pair_line(first, other, both)
            lines.append(line)
            ps.append(p)
    corrected = zip(lines, ps, holm(ps), benjamini_hochberg(ps), strict=True)
    rows = [
        (*line[:3], *map(format_p, (p, strict, q)), *line[3:]) for line, p, strict, q in corrected
    ]
    return TextTable(header, rows, text_columns=2).without_empty()


def _pair_line(
    first: Contestant, other: Contestant, both: Sequence[Question]
) -> tuple[float, tuple[str, ...]]:
    clusters = cluster_codes([first.clusters[question] for question in both], len(both))
    values, others = ([one.values[question] for question in both] for one in (first, other))
    hits = [(first.hits[question], other.hits[question]) for question in both]
    compared = compare_paired(values, others, clusters)
    shared, mine, theirs = first.common_errors(other)
    kappa = cohens_kappa([hit[0] for hit in hits], [hit[1] for hit in hits], clusters)
    oracle = bootstrap_mean([float(any(hit)) for hit in hits], clusters)
    halves = swap_over_halves([a - b for a, b in zip(values, others, strict=True)], clusters)
    out = len(first.hits.keys() | other.hits.keys()) - len(both)
    return compared.p, (
        first.name,
        other.name,
        estimate_cell(compared, sign=True),
        str(len(both)),
        str(out or ""),
        *(str(hits.count(sides)) for sides in ((True, True), (True, False), (False, True))),
        f"{shared}\nof {mine} and {theirs}",
        f"{kappa.value:.2f}\n{kappa.low:.2f} to {kappa.high:.2f}",
        estimate_cell(oracle),
        estimate_cell(halves),
    )


def oracle_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each task and one for all: what the best, the majority and an oracle of all
    contestants reach.

    Only for a single run with three or more contestants; two stand in `pair_table`.
    """
    header = (
        "task",
        "contestants",
        "n",
        "left\nout",
        "all\nright",
        "none\nright",
        "best one %",
        "majority %",
        "any %\n(oracle)",
        "Fleiss'\nkappa",
    )
    lines = []
    tasks = (
        list(dict.fromkeys(scores.task for run in runs for scores in run.points))
        if len(runs) == 1
        else []
    )
    for task in [*tasks, *([""] if len(tasks) > 1 else [])]:
        found = [one for one in contestants(runs[0], task) if one.hits]
        questions = (
            [name for name in found[0].hits if all(name in one.hits for one in found)]
            if found
            else []
        )
        if len(found) > 2 and questions:
            lines.append((task or "all tasks", *_oracle_cells(found, questions)))
    return TextTable(header, lines).without_empty()


def _oracle_cells(found: Sequence[Contestant], questions: Sequence[Question]) -> tuple[str, ...]:
    clusters = cluster_codes(
        [found[0].clusters[question] for question in questions], len(questions)
    )
    hits = [[one.hits[question] for one in found] for question in questions]
    answers = [[one.answers[question] for one in found] for question in questions]
    votes = [
        majority_value(said, list(map(float, hit))) for said, hit in zip(answers, hits, strict=True)
    ]
    any_right = bootstrap_mean([float(any(hit)) for hit in hits], clusters)
    vote = bootstrap_mean(votes, clusters)
    few = len({said for row in answers for said in row}) <= MAX_ANSWERS
    kappa = fleiss_kappa([*zip(*answers, strict=True)], clusters) if few else None
    out = len(set().union(*(one.hits for one in found))) - len(questions)
    best = max(fmean(one.hits[question] for question in questions) for one in found)
    return (
        str(len(found)),
        str(len(questions)),
        str(out or ""),
        str(sum(map(all, hits))),
        str(sum(not any(hit) for hit in hits)),
        percent(best),
        estimate_cell(vote),
        estimate_cell(any_right),
        "" if kappa is None else f"{kappa.value:.2f}\n{kappa.low:.2f} to {kappa.high:.2f}",
    )
