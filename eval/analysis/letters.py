"""The letters that contestants chose, compared with the correct ones: their position bias."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, repeat
from string import ascii_uppercase
from typing import NamedTuple

import numpy as np

from looktwice.eval.analysis.analyses import Analysis
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    attribute_columns,
    format_p,
    percent,
    table,
)
from looktwice.eval.scoring.columns import VERDICTS
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.paired import chi_squared_tail

POSITION_NOTE = (
    "First draws with a readable letter, by the number of choices, with letters as the contestant"
    " saw them. For each letter: how often it was chosen, and below it how often it is the correct"
    " answer, as bars from A on and in percent. `spread` is the standard deviation of the letters'"
    " recalls, in points (RStd, Zheng et al. 2024), p the chi-squared test that they are equal,"
    " uncorrected."
)
BAR_CHARACTERS = "▁▂▃▄▅▆▇█"

Shares = Mapping[str, float]


@dataclass(frozen=True)
class PositionBias:
    """The position bias over n answered questions: the share of each letter among the chosen and
    among the correct answers, and the recall of each letter.

    Shares lie in 0..1. `spread` is the standard deviation of the recalls, and `p` is from the
    chi-squared test that they are all equal.
    """

    chosen_shares: Shares
    key_shares: Shares
    recalls: Shares
    spread: float
    p: float
    n: int


def compute_position_bias(answers: Sequence[str], keys: Sequence[str]) -> PositionBias:
    """Compute the position bias of answers, given the correct letters `keys`; both are letters as
    the contestant saw them.

    The spread of the recalls is RStd of Zheng et al. (2024, "Large Language Models Are Not Robust
    Multiple Choice Selectors", section 2.2), over the letters that are correct for some question.
    Raises ValueError without answers.
    """
    if not answers:
        raise ValueError("position bias needs at least one answered question")
    letters = sorted({*answers, *keys})
    given, true = (np.array([*side])[:, None] == letters for side in (answers, keys))
    asked, right, n = true.sum(axis=0), (given & true).sum(axis=0), len(answers)
    some, overall = asked > 0, right.sum() / n
    recalls, p = right[some] / asked[some], 1.0
    if some.sum() > 1 and 0 < overall < 1:
        off = np.square(right[some] - asked[some] * overall)
        expected = asked[some] * overall * (1 - overall)
        p = chi_squared_tail(int(some.sum()) - 1, (off / expected).sum())
    chosen, key = given.mean(axis=0).tolist(), (asked / n).tolist()
    recall = dict(zip(compress(letters, some), recalls.tolist(), strict=True))
    shares, keyed = (dict(zip(letters, side, strict=True)) for side in (chosen, key))
    return PositionBias(shares, keyed, recall, float(recalls.std()), p, n)


class ChosenLetter(NamedTuple):
    """The letter of an answer to a question with this number of choices, and the correct letter;
    `seen_answer` and `seen_key` are these two letters as the contestant saw them. `is_first_draw`
    is True for a first draw."""

    choice_count: int
    answer: str
    key: str
    seen_answer: str
    seen_key: str
    verdict: Verdict
    is_first_draw: bool


def count_letters(run: RunScores) -> Iterator[tuple[PointScores, Counter[ChosenLetter]]]:
    """Yield each arm with the counts of its answers to questions with choices and a correct answer,
    in the order in which they first occur."""
    shown = defaultdict[str, dict[tuple[str, int], Letters]](dict)
    for record in run.folder.last_records(holding='"letters":{'):
        shown[record.point][record.sample, record.draw] = tuple((record.letters or {}).items())
    questions = dict[int, list[Question | None]]()
    for scores in run.points:
        ids = scores.columns.ids
        if id(ids) not in questions:  # the arms of a task share them
            rows = map(scores.samples.get, ids)
            questions[id(ids)] = [(row.n_choices, row.answer) if row else None for row in rows]
        own = shown.get(scores.point.records_id, {})
        yield scores, _count_letters(scores, questions[id(ids)], own)


Question = tuple[int, str | None]
"""The number of choices, and the correct letter."""


Letters = tuple[tuple[str, str], ...]
"""Pairs (letter as the contestant saw it, the sample's own letter for the same choice)."""


def _count_letters(
    scores: PointScores,
    questions: Sequence[Question | None],
    shown: Mapping[tuple[str, int], Letters],
) -> Counter[ChosenLetter]:
    columns = scores.columns
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
    """Return the position bias of counted answers. Raises ValueError if there are none."""
    every = [letter for letter, count in letters.items() for _ in range(count)]
    return compute_position_bias(
        [one.seen_answer for one in every], [one.seen_key for one in every]
    )


class _ChosenLetters(NamedTuple):
    """The letters that a contestant chose in questions with the same number of choices."""

    contestant: str
    choice_count: int
    bias: PositionBias

    def format_shares(self, letter: str) -> str | None:
        """Format how often a letter was chosen, and below it how often it is the correct answer."""
        if letter not in self.bias.chosen_shares:
            return None
        return (
            f"{percent(self.bias.chosen_shares[letter])}\n({percent(self.bias.key_shares[letter])})"
        )

    @property
    def bars(self) -> str:
        """A bar for each letter from A on: how often it was chosen, and below it how often it is
        correct."""
        sides = self.bias.chosen_shares, self.bias.key_shares
        most = max(share for side in sides for share in side.values())
        letters = sorted({letter for side in sides for letter in side})
        heights = ([round(7 * side.get(letter, 0) / most) for letter in letters] for side in sides)
        return "\n".join("".join(map(BAR_CHARACTERS.__getitem__, row)) for row in heights)


def position_table(scored: Table) -> TextTable:
    """Return a line for each contestant and number of choices: the letters that it chose, the
    correct letters, and the bias; counted over first draws whose answer is a letter."""
    chosen = dict[tuple[str, int], Counter[ChosenLetter]]()
    for run in scored.scores:
        own = defaultdict[tuple[str, int], Counter[ChosenLetter]](Counter)
        for scores, counts in count_letters(run):
            for letter, count in counts.items():
                among = ascii_uppercase[: letter.choice_count]
                if (
                    letter.is_first_draw
                    and len(among) > 1
                    and {letter.answer, letter.key} <= {*among}
                ):
                    own[scores.contestant, letter.choice_count][letter] += count
        chosen |= own
    lines, named = list[_ChosenLetters](), set[str]()
    for place, letters in chosen.items():
        lines.append(_ChosenLetters(*place, measure_bias(letters)))
        named |= lines[-1].bias.chosen_shares.keys()
    columns: list[Column[_ChosenLetters]] = [
        *attribute_columns("contestant"),
        Column("bars\n(key)", "bars"),
        Column("choices", "choice_count"),
        Column("spread", "bias.spread", percent),
        Column("p", "bias.p", format_p),
        Column("n", "bias.n"),
    ]
    for name in sorted(named):
        shares = partial(_ChosenLetters.format_shares, letter=name)
        columns.insert(-3, Column(f"{name} %\n(key)", shares))
    return table(columns, lines)


LETTERS_ANALYSIS = Analysis("letters", "Letters chosen", position_table, POSITION_NOTE, wrap=False)
