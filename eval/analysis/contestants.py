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
    change_cell,
    estimate_cell,
    format_p,
    number_cell,
    percent,
    some,
    table,
    text,
)
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import UNJUDGED, PointScores, RunScores, Verdict
from looktwice.eval.statistics.answers import cohens_kappa, fleiss_kappa, majority_value
from looktwice.eval.statistics.intervals import Clusters, Estimate, bootstrap_mean, cluster_codes
from looktwice.eval.statistics.paired import compare_paired, correct
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
    values: dict[Question, float]
    hits: dict[Question, bool]
    answers: dict[Question, str | None]
    clusters: dict[Question, str]

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
    by_name: dict[str, Contestant] = {}
    for arm in run.points:
        if task not in ("", arm.task):
            continue
        name = arm.contestant
        mine = by_name.setdefault(name, Contestant(name, {}, {}, {}, {}))
        for sample, hit in right_on_first_draw(arm).items():
            question, first = (arm.point.task_id, sample), arm.first(sample)
            mine.values[question] = arm.comparable[sample]
            mine.hits[question] = hit
            mine.answers[question] = first.answer if first else None
            mine.clusters[question] = arm.clusters[sample]
    return list(by_name.values())


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


@dataclass(frozen=True)
class RivalPair:
    """Two contestants on the questions that both were asked and neither failed."""

    first: Contestant
    other: Contestant
    questions: Sequence[Question]
    paired: Estimate
    p_holm: float | None = None
    p_bh: float | None = None

    @property
    def clusters(self) -> Clusters:
        """The number of each question's cluster."""
        clusters = [self.first.clusters[question] for question in self.questions]
        return cluster_codes(clusters, len(clusters))

    @cached_property
    def hits(self) -> list[tuple[bool, bool]]:
        """Whether the two are right on each question."""
        return [(self.first.hits[name], self.other.hits[name]) for name in self.questions]

    @property
    def left_out(self) -> int:
        """Questions that one of the two was asked alone."""
        return len(self.first.hits.keys() | self.other.hits.keys()) - len(self.questions)

    @property
    def shared_mistakes(self) -> str:
        """How many mistakes they share, and how many each has."""
        shared, mine, theirs = self.first.common_errors(self.other)
        return f"{shared}\nof {mine} and {theirs}"

    @property
    def kappa(self) -> Estimate:
        """Their agreement of right and wrong beyond chance."""
        mine, theirs = zip(*self.hits, strict=True)
        return cohens_kappa(mine, theirs, self.clusters)

    @property
    def oracle(self) -> Estimate:
        """The share on which either is right."""
        return bootstrap_mean([float(any(hit)) for hit in self.hits], self.clusters)

    @property
    def swap(self) -> Estimate:
        """How probably two new halves put them in opposite orders."""
        first, rival = self.first.values, self.other.values
        gaps = [first[question] - rival[question] for question in self.questions]
        return swap_over_halves(gaps, self.clusters)


PAIRS: tuple[Column[RivalPair], ...] = (
    Column("contestant", "first.name", text),
    Column("other", "other.name", text),
    Column("difference", "paired", change_cell),
    Column("p", "paired.p", format_p),
    Column("p\n(Holm)", "p_holm", format_p),
    Column("p\n(BH)", "p_bh", format_p),
    Column("n", "paired.n"),
    Column("left\nout", "left_out", some),
    Column("both\nright", lambda pair: pair.hits.count((True, True))),
    Column("only\nfirst", lambda pair: pair.hits.count((True, False))),
    Column("only\nother", lambda pair: pair.hits.count((False, True))),
    Column("mistakes\nshared", "shared_mistakes"),
    Column("kappa", "kappa", number_cell),
    Column("either %\n(oracle)", "oracle", estimate_cell),
    Column("new halves\nswap %", "swap", estimate_cell),
)


def pair_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each two contestants; only for a single run, and for no more contestants than a
    table can hold."""
    asked = (
        [contestant for contestant in contestants(runs[0]) if contestant.hits]
        if len(runs) == 1
        else []
    )
    pairs = list[RivalPair]()
    for first, rival in combinations(asked, 2) if len(asked) <= MAX_CONTESTANTS else ():
        if both := [question for question in first.hits if question in rival.hits]:
            mine, theirs = ([side.values[q] for q in both] for side in (first, rival))
            clusters = cluster_codes([first.clusters[question] for question in both], len(both))
            pairs.append(RivalPair(first, rival, both, compare_paired(mine, theirs, clusters)))
    return table(PAIRS, correct(pairs, lambda pair: pair.paired.p, lambda _: "")).without_empty()


@dataclass(frozen=True)
class AllTogether:
    """All contestants on the questions of a task that each was asked and none failed."""

    task: str
    contestants: Sequence[Contestant]
    questions: Sequence[Question]

    @property
    def clusters(self) -> Clusters:
        """The number of each question's cluster."""
        clusters = [self.contestants[0].clusters[question] for question in self.questions]
        return cluster_codes(clusters, len(clusters))

    @cached_property
    def hits(self) -> list[list[bool]]:
        """By question, whether each contestant is right."""
        return [
            [contestant.hits[question] for contestant in self.contestants]
            for question in self.questions
        ]

    @cached_property
    def answers(self) -> list[list[str | None]]:
        """By question, what each contestant answered."""
        return [
            [contestant.answers[question] for contestant in self.contestants]
            for question in self.questions
        ]

    @property
    def left_out(self) -> int:
        """Questions that some contestant was not asked, or failed."""
        return len(set().union(*(contestant.hits for contestant in self.contestants))) - len(
            self.questions
        )

    @property
    def best(self) -> float:
        """The accuracy of the best contestant."""
        return max(map(fmean, zip(*self.hits, strict=True)))

    @property
    def majority(self) -> Estimate:
        """What the most frequent answer reaches."""
        pairs = zip(self.answers, self.hits, strict=True)
        votes = [majority_value(answers, [*map(float, hits)]) for answers, hits in pairs]
        return bootstrap_mean(votes, self.clusters)

    @property
    def oracle(self) -> Estimate:
        """The share of questions on which any contestant is right."""
        return bootstrap_mean([float(any(hit)) for hit in self.hits], self.clusters)

    @property
    def kappa(self) -> Estimate | None:
        """The agreement of their answers, where these are choices."""
        kinds = {answer for answers in self.answers for answer in answers}
        by_contestant = [*zip(*self.answers, strict=True)]
        return fleiss_kappa(by_contestant, self.clusters) if len(kinds) <= MAX_ANSWERS else None


TOGETHER: tuple[Column[AllTogether], ...] = (
    Column("task", "task", text),
    Column("contestants", lambda line: len(line.contestants)),
    Column("n", lambda line: len(line.questions)),
    Column("left\nout", "left_out", some),
    Column("all\nright", lambda line: sum(map(all, line.hits))),
    Column("none\nright", lambda line: len(line.hits) - sum(map(any, line.hits))),
    Column("best one %", "best", percent),
    Column("majority %", "majority", estimate_cell),
    Column("any %\n(oracle)", "oracle", estimate_cell),
    Column("Fleiss'\nkappa", "kappa", number_cell),
)


def oracle_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each task and one for all: what the best, the majority and an oracle of all
    contestants reach.

    Only for a single run with three or more contestants; two stand in `pair_table`.
    """
    lines = list[AllTogether]()
    tasks = list(dict.fromkeys(scores.task for scores in runs[0].points)) if len(runs) == 1 else []
    for task in [*tasks, *([""] if len(tasks) > 1 else [])]:
        asked = [contestant for contestant in contestants(runs[0], task) if contestant.hits]
        shared = (
            set.intersection(*(set(contestant.hits) for contestant in asked))
            if asked
            else set[Question]()
        )
        if len(asked) > 2 and shared:
            questions = [question for question in asked[0].hits if question in shared]
            lines.append(AllTogether(task or "all tasks", asked, questions))
    return table(TOGETHER, lines).without_empty()
