"""Compares contestants with their baseline, with each other, and with guesses and specialists:
differences, shared errors, and the accuracy of an oracle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from looktwice.eval.analysis.analyses import Analysis, make_table_builder
from looktwice.eval.analysis.one_change import is_specialist
from looktwice.eval.analysis.shared_samples import ContestantMatrix, SharedSamples
from looktwice.eval.display.score_tables import drop_means_of_one, format_contestant, format_delta
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    ARM_NAME_COLUMNS,
    CORRECTED_COLUMNS,
    Column,
    Columns,
    TextTable,
    attribute_columns,
    change_cell,
    estimate_cell,
    format_p,
    nonzero_cell,
    number_cell,
    percent,
    percentage_points,
    share_cell,
    table,
    text,
)
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.intervals import Estimate, share_interval
from looktwice.eval.statistics.paired import correct
from looktwice.specialists.answers import Guess

MAX_CONTESTANTS = 12  # more make the table unreadable

COMPARISON_NOTE = (
    "Each arm minus its baseline, on the units that both answered without failing; `left out`"
    " counts the others. The difference is in percentage points with its 95 % bootstrap interval"
    " over clusters: units of one group or picture are resampled together. p is two-sided, from the"
    " test named; for accuracy it is corrected by Holm and by Benjamini and Hochberg over all lines"
    " on single tasks, and separately over those of micro. `detectable` is the smallest difference"
    " that a test on as many units with the same rate of differing answers would detect with 80 %"
    " power at 5 % (Connor 1987)."
)
PAIR_NOTE = (
    "Each pair of contestants, on the questions with a correct answer that both answered without"
    " failing, over all tasks; unreadable answers count as mistakes. Difference: the first"
    " minus the other, with its 95 % bootstrap interval over clusters (questions of one group or"
    " picture are resampled together); p is exact, and corrected over the lines of this table."
    " Kappa measures how far the two are right on the same questions, beyond what independent"
    " contestants would be (Cohen 1960; error consistency of Geirhos et al. 2020). `new halves"
    " swap` is the probability that two new sets of half as many questions rank the two in opposite"
    " orders, if the true difference equals the measured one; at most 50 %. Counts, oracle and"
    " kappa use the first draw."
)
ORACLE_NOTE = (
    "All contestants on the questions that all of them answered without failing, first draw. The"
    " oracle is right if any contestant is; the majority gives their most frequent answer (ties are"
    " averaged). Fleiss' kappa (1971) is over their answers, if these are choices; unreadable"
    " counts as a separate answer. Intervals: 95 %, bootstrap over clusters."
)


COMPARISON_COLUMNS: Columns[Row] = (
    Column("contestant", format_contestant, text),
    *attribute_columns("task", "metric"),
    Column("baseline", "baseline", text),
    *attribute_columns("unit", "test"),
    Column("difference", format_delta),
    Column("p", "p", format_p),
    *CORRECTED_COLUMNS,
    Column("detectable", "detectable", percent),
    Column("n", "compared"),
    Column("clusters", "n_clusters"),
    Column("better", "better"),
    Column("worse", "worse"),
    Column("left\nout", "excluded", nonzero_cell),
)


def comparison_table(scored: Table) -> TextTable:
    """Return every arm and metric compared with its baseline, without the columns that
    `comparison_facts` returns."""
    return _list_comparisons(scored).without(*dict(comparison_facts(scored)))


def comparison_facts(scored: Table) -> list[tuple[str, str]]:
    """Return the metric, baseline, unit and test, each only if every line has the same."""
    shown = _list_comparisons(scored)
    columns = zip(shown.header, map(set, zip(*shown.rows, strict=True)), strict=False)
    return [(name, *cells) for name, cells in [*columns][2:6] if len(cells) == 1]


def _list_comparisons(scored: Table) -> TextTable:
    rows = [row for row in scored.where(slice="") if None not in (row.delta, row.n_clusters)]
    return table(COMPARISON_COLUMNS, drop_means_of_one(rows)).without_empty()


@dataclass(frozen=True)
class RivalPair:
    """Two contestants on the questions that both answered, and their difference."""

    shared_samples: SharedSamples
    paired: Estimate
    p_holm: float | None = None
    p_bh: float | None = None


PAIR_COLUMNS: Columns[RivalPair] = (
    Column("contestant", lambda pair: pair.shared_samples.values.arms[0], text),
    Column("other", lambda pair: pair.shared_samples.values.arms[1], text),
    Column("difference", "paired", change_cell),
    Column("p", "paired.p", format_p),
    *CORRECTED_COLUMNS,
    Column("n", "shared_samples.n"),
    Column("left\nout", "shared_samples.left_out", nonzero_cell),
    Column("both\nright", lambda pair: pair.shared_samples.count(True, True)),
    Column("only\nfirst", lambda pair: pair.shared_samples.count(True, False)),
    Column("only\nother", lambda pair: pair.shared_samples.count(False, True)),
    Column("mistakes\nshared", "shared_samples.mistakes"),
    Column("kappa", "shared_samples.kappa", number_cell),
    Column("either %\n(oracle)", "shared_samples.oracle", estimate_cell),
    Column("new halves\nswap %", "shared_samples.swap_rate", estimate_cell),
)


def _collect_arms(scored: Table, task: str = "") -> dict[str, list[PointScores]]:
    """Return the arms of each contestant, on all tasks or one, that have answers to compare; empty
    if there are several runs."""
    arms = defaultdict[str, list[PointScores]](list)
    for arm in scored.scores[0].points if len(scored.scores) == 1 else ():
        if task in ("", arm.task) and len(arm.first_rows):
            arms[arm.contestant].append(arm)
    return arms


def pair_table(scored: Table) -> TextTable:
    """Return a line for each pair of contestants; only for a single run, and for no more
    contestants than a table can hold."""
    arms, pairs = _collect_arms(scored), list[RivalPair]()
    matrix = ContestantMatrix.from_arms(arms if len(arms) <= MAX_CONTESTANTS else {})
    for first, rival in combinations(matrix.names, 2):
        both = matrix.compare([first, rival])
        if paired := both.values.compare_arms(first, rival):
            pairs.append(RivalPair(both, paired))
    return table(
        PAIR_COLUMNS, correct(pairs, lambda pair: pair.paired.p, lambda _: "")
    ).without_empty()


ORACLE_COLUMNS: Columns[SharedSamples] = (
    *attribute_columns("task"),
    Column("contestants", lambda line: len(line.hits)),
    Column("n", "n"),
    Column("left\nout", "left_out", nonzero_cell),
    Column("all\nright", lambda line: line.hits.all(axis=0).sum()),
    Column("none\nright", lambda line: (~line.hits).all(axis=0).sum()),
    Column("best %", lambda line: max(line.shares[:-1]), percent),
    Column("majority %", "majority", estimate_cell),
    Column("any %\n(oracle)", "oracle", estimate_cell),
    Column("Fleiss'\nkappa", "agreement", number_cell),
)


def oracle_table(scored: Table) -> TextTable:
    """Return a line for each task and one for all tasks: the accuracy of the best contestant, of
    the majority and of an oracle over all contestants.

    Only for a single run with three or more contestants; `pair_table` covers two.
    """
    tasks = dict.fromkeys(arm.task for arms in _collect_arms(scored).values() for arm in arms)
    lines = []
    for task in (*tasks, *([""] if len(tasks) > 1 else [])):
        arms = _collect_arms(scored, task)
        together = SharedSamples.from_arms(arms, task or "all tasks")
        if len(arms) > 2 and together.n:
            lines.append(together)
    return table(ORACLE_COLUMNS, lines).without_empty()


# ---- specialists and guesses


@dataclass(frozen=True)
class SpecialistPair:
    """A specialist and an MLLM on the same samples of one task; an abstention is not right."""

    specialist: PointScores
    mllm: PointScores
    shared_samples: SharedSamples

    @property
    def oracle_by_chance(self) -> float:
        """The share of samples on which either would be right if the two were independent."""
        mine, theirs, _ = self.shared_samples.shares
        return 1 - (1 - mine) * (1 - theirs)

    @property
    def oracle(self) -> Estimate:
        """The share of samples on which either is right, with its interval."""
        return share_interval(
            self.shared_samples.hits.any(axis=0), self.shared_samples.values.clusters
        )

    @property
    def excluded_count(self) -> int:
        """The number of samples with a correct answer that failed or are missing for one of
        them."""
        return len(self.specialist.keyed_samples) - self.shared_samples.n


def find_specialist_pairs(run: RunScores) -> Iterator[SpecialistPair]:
    """Yield every pair of a specialist and an MLLM on the same task."""
    callers = [arm for arm in run.points if arm.columns["calls"].any()]
    for specialist in filter(is_specialist, run.points):
        for mllm in callers:
            if mllm.point.task_id == specialist.point.task_id:
                both = SharedSamples.from_arms({"specialist": [specialist], "mllm": [mllm]})
                if both.n:
                    yield SpecialistPair(specialist, mllm, both)


SPECIALIST_COLUMNS: Columns[SpecialistPair] = (
    Column("task", "specialist.task", text),
    Column("specialist", "specialist.contestant", text),
    Column("MLLM", "mllm.contestant", text),
    Column("n", "shared_samples.n"),
    Column("both\nright", lambda pair: pair.shared_samples.count(True, True)),
    Column("only\nspecialist", lambda pair: pair.shared_samples.count(True, False)),
    Column("only\nMLLM", lambda pair: pair.shared_samples.count(False, True)),
    Column("neither", lambda pair: pair.shared_samples.count(False, False)),
    Column("specialist\n%", lambda pair: pair.shared_samples.shares[0], percent),
    Column("MLLM\n%", lambda pair: pair.shared_samples.shares[1], percent),
    Column("either %\n(oracle)", "oracle", share_cell),
    Column(
        "gain over\nthe better",
        lambda pair: pair.shared_samples.shares[2] - max(pair.shared_samples.shares[:2]),
        percentage_points,
    ),
    Column("either %\nby chance", "oracle_by_chance", percent),
    Column("excluded", "excluded_count", nonzero_cell),
)


class Guesses(NamedTuple):
    """An arm that guesses on some samples, and whether each of its guesses and other answers is
    right."""

    scores: PointScores
    guess_hits: list[bool]
    other_hits: list[bool]


GUESS_COLUMNS: Columns[Guesses] = (
    *ARM_NAME_COLUMNS,
    Column("n", lambda line: len(line.guess_hits) + len(line.other_hits)),
    Column("guessed", lambda line: len(line.guess_hits)),
    Column("not\nguessed", lambda line: len(line.other_hits)),
    Column(
        "accuracy of\nothers %",
        lambda line: fmean(line.other_hits) if line.other_hits else None,
        percent,
    ),
    Column("accuracy of\nguesses %", lambda line: fmean(line.guess_hits), percent),
)


def find_guesses(run: RunScores) -> Iterator[Guesses]:
    """Yield each arm that guessed, with its guesses and its other records."""
    guessed = set()
    for record in run.folder.last_records(holding=f'"{Guess.NOTE}'):
        if any(note.startswith(Guess.NOTE) for note in record.notes):
            guessed.add(record.key)
    for scores in run.points if guessed else ():
        line = Guesses(scores, [], [])
        for entry in scores.all_records:
            is_guess = (scores.point.records_id, entry.sample, entry.draw) in guessed
            kind = line.guess_hits if is_guess else line.other_hits
            kind.append(entry.verdict is Verdict.RIGHT)
        if line.guess_hits:
            yield line


BASELINE_ANALYSIS = Analysis(
    "baseline",
    "Against the baseline",
    comparison_table,
    COMPARISON_NOTE,
    lists_unchanged=True,
    facts=comparison_facts,
)
PAIRS_ANALYSIS = Analysis("pairs", "Pairs of contestants", pair_table, PAIR_NOTE, wrap=False)
ORACLE_ANALYSIS = Analysis(
    "oracle", "All contestants together", oracle_table, ORACLE_NOTE, wrap=False
)
GUESSED_ANALYSIS = Analysis(
    "guesses", "Guesses", make_table_builder(GUESS_COLUMNS, find_guesses), wrap=False
)
AGAINST_SPECIALISTS_ANALYSIS = Analysis(
    "specialists",
    "Specialists and MLLMs",
    make_table_builder(SPECIALIST_COLUMNS, find_specialist_pairs),
    wrap=False,
)
