"""The stability of results: over draws, with choices in other positions, and over variants."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from statistics import fmean
from string import ascii_uppercase
from typing import NamedTuple

from looktwice.eval.analysis.analyses import Analysis, make_table_builder
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    COLUMNS_OF_ARM,
    Column,
    Columns,
    TextTable,
    attribute_columns,
    estimate_cell,
    format_p,
    nonzero_cell,
    percent,
    table,
)
from looktwice.eval.scoring.columns import VERDICTS
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, Verdict
from looktwice.eval.statistics.answers import (
    DrawVariance,
    PositionBias,
    majority_value,
    position_bias,
    split_variance,
)
from looktwice.eval.statistics.intervals import Estimate, bootstrap_mean

DRAW_NOTE = (
    "Samples with a correct answer whose draws were all asked and did not fail; the others are"
    " left out. The standard error of accuracy is split, by the mean squares of a one-way analysis"
    " of variance, into the error from sampling the questions and the error from the draws. pass@k:"
    " at least one of k draws is right (Chen et al. 2021). Majority: the most frequent answer of a"
    " sample (the mean of equally frequent ones). Intervals: 95 %, bootstrap over clusters."
)
POSITION_NOTE = (
    "First draws with a readable letter, by the number of choices, with letters as the contestant"
    " saw them. For each letter: how often it was chosen, and below how often it is the correct"
    " answer, as bars from A on and in percent. `spread` is the standard deviation of the letters'"
    " recalls, in points (RStd, Zheng et al. 2024), p the chi-squared test that they are equal, not"
    " corrected."
)


BAR_CHARACTERS = "▁▂▃▄▅▆▇█"


def find_whole_draws(scores: PointScores) -> dict[str, list[ScoredRecord]]:
    """Return the samples that have a correct answer and whose draws were all asked without failure,
    cut to the number of draws that all of them have."""
    complete = dict[str, list[ScoredRecord]]()
    for name in scores.keyed:
        kept = [draw for draw in scores.draws(name) if draw and draw.verdict is not Verdict.FAILED]
        if len(kept) == len(scores.draws(name)):
            complete[name] = kept
    least = min(map(len, complete.values()), default=0)
    return {name: draws[:least] for name, draws in complete.items()}


@dataclass(frozen=True)
class Draws:
    """The draws of an arm on the samples that have all of them."""

    scores: PointScores
    complete: Mapping[str, list[ScoredRecord]]
    split: DrawVariance

    @property
    def left_out(self) -> int:
        """The number of samples with a correct answer that lack a draw."""
        return len(self.scores.keyed) - len(self.complete)

    @property
    def share_any_right(self) -> Estimate:
        """The share of samples with at least one right draw: pass@k, where k is the number of
        draws."""
        right = [{d.verdict for d in draws} >= {Verdict.RIGHT} for draws in self.complete.values()]
        return bootstrap_mean(right, self.scores.clusters_of(self.complete))

    @property
    def majority(self) -> Estimate:
        """The accuracy of the most frequent answer of each sample."""
        votes = []
        for draws in self.complete.values():
            answers, worth = zip(*((draw.answer, draw.score.value) for draw in draws), strict=True)
            votes.append(majority_value(answers, worth))
        return bootstrap_mean(votes, self.scores.clusters_of(self.complete))


DRAWS: Columns[Draws] = (
    *COLUMNS_OF_ARM,
    Column("n", "split.n"),
    Column("left\nout", "left_out", nonzero_cell),
    Column("draws", "split.draws"),
    Column("accuracy %", "split.mean", percent),
    Column("error from\nsamples", "split.samples_error", percent),
    Column("error from\ndraws", "split.draws_error", percent),
    Column("variance from\ndraws %", "split.draw_share", percent),
    Column("pass@k %\n(k = draws)", "share_any_right", estimate_cell),
    Column("majority %", "majority", estimate_cell),
)


def find_draws(run: RunScores) -> Iterator[Draws]:
    """Yield each arm with several draws: its errors from samples and from draws, pass@k, and the
    majority."""
    for scores in run.points:
        complete = find_whole_draws(scores) if scores.point.draws > 1 else {}
        if len(complete) > 1:
            values = [[draw.score.value for draw in draws] for draws in complete.values()]
            yield Draws(scores, complete, split_variance(values))


# ---- letters


class ChosenLetter(NamedTuple):
    """The letter of an answer to a question with this number of choices, and the correct letter;
    `seen` and `seen_key` are the same as the contestant saw them. `is_first` is True for a first
    draw."""

    choices: int
    answer: str
    key: str
    seen: str
    seen_key: str
    verdict: Verdict
    is_first: bool


def count_letters(run: RunScores) -> Iterator[tuple[PointScores, Counter[ChosenLetter]]]:
    """Yield each arm with its answers to questions with choices and a correct answer, counted, in
    the order in which they first came."""
    shown = defaultdict[str, dict[tuple[str, int], Letters]](dict)
    for record in run.folder.last_records(holding='"letters":{'):
        shown[record.point][record.sample, record.draw] = tuple((record.letters or {}).items())
    for scores in run.points:
        yield scores, _count_letters(scores, shown.get(scores.point.records_id, {}))


Letters = tuple[tuple[str, str], ...]
"""Pairs of a letter as asked and the sample's own letter."""


def _count_letters(
    scores: PointScores, shown: Mapping[tuple[str, int], Letters]
) -> Counter[ChosenLetter]:
    columns, samples = scores.columns, map(scores.samples.get, scores.columns.ids)
    questions = [row and (row.n_choices, row.answer) for row in samples]
    names = ("sample", "draw", "words", "verdict")
    places, draws, *codes = (columns[name].tolist() for name in names)
    asked = map(questions.__getitem__, places)
    orders: Iterable[Letters] = repeat(())
    if shown:
        ids = map(columns.ids.__getitem__, places)
        orders = [shown.get(place, ()) for place in zip(ids, draws, strict=True)]
    counts, words = Counter[ChosenLetter](), columns.pools["words"].values
    distinct = Counter(zip(asked, draws, *codes, orders, strict=False))
    for (question, draw, code, verdict, order), count in distinct.items():
        (choices, key), answer = question or (0, None), words[code].answer
        if choices and answer is not None and key is not None:
            seen = {own: asked for asked, own in order}
            both = seen.get(answer, answer), seen.get(key, key)
            facts = VERDICTS[verdict], draw == 0
            counts[ChosenLetter(choices, answer, key, *both, *facts)] += count
    return counts


def measure_bias(letters: Mapping[ChosenLetter, int]) -> PositionBias:
    """Return the position bias of counted answers. Raises ValueError without any."""
    every = [letter for letter, count in letters.items() for _ in range(count)]
    return position_bias([one.seen for one in every], [one.seen_key for one in every])


class _Letters(NamedTuple):
    """The letters that a contestant chose among this number of choices."""

    contestant: str
    choices: int
    bias: PositionBias

    def shares(self, letter: str) -> str | None:
        """Return how often a letter was chosen, and below it how often it is the correct answer."""
        if letter not in self.bias.chosen:
            return None
        return f"{percent(self.bias.chosen[letter])}\n({percent(self.bias.key[letter])})"

    @property
    def bars(self) -> str:
        """A bar for each letter from A on: how often it was chosen, and below how often it is
        correct."""
        sides = self.bias.chosen, self.bias.key
        most = max(share for side in sides for share in side.values())
        letters = sorted({letter for side in sides for letter in side})
        heights = ([round(7 * side.get(letter, 0) / most) for letter in letters] for side in sides)
        return "\n".join("".join(map(BAR_CHARACTERS.__getitem__, row)) for row in heights)


def position_table(scored: Table) -> TextTable:
    """Return a line for each contestant and number of choices: the letters that it chose, the
    correct letters, and the bias; over first draws that name a letter."""
    chosen = dict[tuple[str, int], Counter[ChosenLetter]]()
    for run in scored.scores:
        own = defaultdict[tuple[str, int], Counter[ChosenLetter]](Counter)
        for scores, counts in count_letters(run):
            for letter, count in counts.items():
                among = ascii_uppercase[: letter.choices]
                if letter.is_first and len(among) > 1 and {letter.answer, letter.key} <= {*among}:
                    own[scores.contestant, letter.choices][letter] += count
        chosen |= own
    lines, named = list[_Letters](), set[str]()
    for place, letters in chosen.items():
        lines.append(_Letters(*place, measure_bias(letters)))
        named |= lines[-1].bias.chosen.keys()
    columns: list[Column[_Letters]] = [
        *attribute_columns("contestant"),
        Column("bars\n(key)", "bars"),
        Column("choices", "choices"),
        Column("spread", "bias.spread", percent),
        Column("p", "bias.p", format_p),
        Column("n", "bias.n"),
    ]
    for letter in sorted(named):
        shares = partial(_Letters.shares, letter=letter)
        columns.insert(-3, Column(f"{letter} %\n(key)", shares))
    return table(columns, lines)


# ---- variants

MIN_VARIANTS = 3  # with fewer variants, a spread means little


@dataclass(frozen=True)
class _Spread:
    """The rows of a contestant's variants on a task, from the worst to the best."""

    contestant: str
    task: str
    ranked: list[Row]

    @property
    def mean(self) -> float:
        return fmean(row.value or 0.0 for row in self.ranked)

    @property
    def spread(self) -> float:
        return (self.ranked[-1].value or 0.0) - (self.ranked[0].value or 0.0)


SPREADS: Columns[_Spread] = (
    *attribute_columns("contestant", "task"),
    Column("variants", lambda line: len(line.ranked)),
    Column("mean %", "mean", percent),
    Column("worst %", lambda line: line.ranked[0].value, percent),
    Column("worst variant", lambda line: _changes(line.ranked[0])),
    Column("best %", lambda line: line.ranked[-1].value, percent),
    Column("best variant", lambda line: _changes(line.ranked[-1])),
    Column("spread", "spread", percent),
)


def _changes(row: Row) -> str:
    return row.contestant.partition(" [")[2].removesuffix("]") or "unchanged"


def spread_table(scored: Table) -> TextTable:
    """Return a line per contestant and task with at least three variants: mean, worst, best, and
    best minus worst.

    Variants are the points of one contestant that differ in its stages, model or draws, on the same
    samples.
    """
    variants = defaultdict[tuple[str, str, str], list[Row]](list)
    for row in scored.where(metric="accuracy", slice="").rows:
        if row.point and row.task_name and row.value is not None:
            variants[row.run, row.contestant.partition(" [")[0], row.task].append(row)
    many = len({run for run, _, _ in variants}) > 1
    lines = []
    for (run, name, task), rows in variants.items():
        if len(rows) >= MIN_VARIANTS:
            ranked = sorted(rows, key=lambda row: row.value or 0.0)
            lines.append(_Spread(f"{name} ({run})" if many else name, task, ranked))
    return table(SPREADS, lines)


SPREAD_ANALYSIS = Analysis("spread", "Spread over variants", spread_table)
SEVERAL_DRAWS_ANALYSIS = Analysis(
    "draws", "Draws", make_table_builder(DRAWS, find_draws, empty=False), DRAW_NOTE
)
LETTERS_ANALYSIS = Analysis("letters", "Letters chosen", position_table, POSITION_NOTE, wrap=False)
