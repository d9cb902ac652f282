"""The effect of further turns: accuracy by turn, answers gained and lost, their cost, and stopping
rules; and the accuracy of an arm on samples whose mark was seen, according to the answers to
`MarkQuestions` about these samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from looktwice.eval.analysis.analyses import Analysis, make_table_builder
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    attribute_columns,
    change_cell,
    format_cost,
    format_p,
    percent,
    share_cell,
    text,
)
from looktwice.eval.scoring.turns import LOOKING_REASON, ArmTurns, Turns, read_turns
from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.contrasts import mean_difference
from looktwice.eval.statistics.intervals import Estimate, share_interval


@dataclass(frozen=True)
class TurnChange:
    """The change from one turn of an arm to a later one; turns are counted from 0."""

    arm: ArmTurns
    before_turn: int
    after_turn: int

    @property
    def paired(self) -> Estimate | None:
        """The paired change of accuracy over the samples that have an answer after both turns; None
        if there are none."""
        return self.arm.values.compare_arms(self.after_turn, self.before_turn)

    @property
    def answered_records(self) -> list[Turns]:
        """The records that have an answer after both turns."""
        ends = (self.before_turn, self.after_turn)
        return [
            t for t in self.arm.records if LOOKING_REASON not in (t.at(end).reason for end in ends)
        ]

    def find_changes(self, right: bool) -> list[bool]:
        """Return, for each record in `answered_records`, whether a wrong answer became right or,
        unless `right`, a right answer became wrong."""
        pair = [not right, right]
        return [
            [
                turns.at(turn).verdict is Verdict.RIGHT
                for turn in (self.before_turn, self.after_turn)
            ]
            == pair
            for turns in self.answered_records
        ]

    def format_changes(self, right: bool) -> str:
        """Return the number of records that became right or, unless `right`, wrong, with the
        interval of their share; empty if `answered_records` has no record."""
        clusters = self.arm.scores.clusters_of(turns.sample for turns in self.answered_records)
        if not clusters:
            return ""
        share = share_interval(self.find_changes(right), clusters)
        return f"{sum(self.find_changes(right))}\n{percent(share.low)}–{percent(share.high)} %"

    @property
    def tokens(self) -> float:
        """The additional tokens per sample that the further turns take."""
        return self.arm.tokens(self.after_turn) - self.arm.tokens(self.before_turn)

    @property
    def cost(self) -> float | None:
        """The additional cost per sample of the further turns, at list prices."""
        start, end = self.arm.cost(self.before_turn), self.arm.cost(self.after_turn)
        return None if start is None or end is None else end - start

    def compute_cost_per_point(self, spent: float | None) -> float | None:
        """Return the amount `spent` per percentage point gained; None if there is no gain."""
        gain = self.paired.value if self.paired else 0.0
        return None if spent is None or gain <= 0 else spent / (100 * gain)

    @property
    def tokens_per_point(self) -> str:
        """The tokens per percentage point gained."""
        price = self.compute_cost_per_point(self.tokens)
        return "no gain" if price is None else f"{price:,.1f}"


@dataclass(frozen=True)
class TurnLine:
    """A line of the table of turns: an arm after a turn, the change since the previous turn
    (`last_change`), and the change since the first turn, from which the cost per point is
    computed."""

    arm: ArmTurns
    name: str
    turn: int
    last_change: TurnChange | None = None
    change_since_first: TurnChange | None = None

    @property
    def accuracy(self) -> Estimate | None:
        """The accuracy after the turn."""
        return self.arm.values.mean(self.turn)


TURN_COLUMNS: Columns[TurnLine] = (
    *attribute_columns("contestant", "task", of="arm.scores"),
    Column("turn", "name", text),
    Column("n", lambda line: line.accuracy and line.accuracy.n),
    Column("accuracy\n%", "accuracy", share_cell),
    Column(
        "wrong\nto right", lambda line: line.last_change and line.last_change.format_changes(True)
    ),
    Column(
        "right\nto wrong", lambda line: line.last_change and line.last_change.format_changes(False)
    ),
    Column("change", "last_change.paired", change_cell),
    Column("p", "last_change.paired.p", format_p),
    Column("tokens\nper sample", lambda line: line.arm.tokens(line.turn), "{:,.0f}"),
    Column("cost\nper sample", lambda line: line.arm.cost(line.turn), format_cost),
    Column("tokens per\npoint gained", "change_since_first.tokens_per_point"),
    Column(
        "cost per\npoint gained",
        lambda line: (
            line.change_since_first
            and line.change_since_first.compute_cost_per_point(line.change_since_first.cost)
        ),
        format_cost,
    ),
)


def list_turn_lines(run: RunScores) -> Iterator[TurnLine]:
    """Yield a line per turn of every arm, and, for more than two turns, a line from the first to
    the last."""
    for arm in read_turns(run):
        first, *later = arm.shown_turns
        yield TurnLine(arm, f"{first + 1}", first)
        for before, turn in zip(arm.shown_turns, later, strict=False):
            since = TurnChange(arm, first, turn)
            yield TurnLine(arm, f"{turn + 1}", turn, TurnChange(arm, before, turn), since)
        if len(later) > 1:
            whole = TurnChange(arm, first, arm.last)
            yield TurnLine(arm, f"1 to {arm.last + 1}", arm.last, whole, whole)


@dataclass(frozen=True)
class StoppingRule:
    """A rule that ends the turns early, compared with stopping after a fixed number of turns at the
    same mean cost.

    `mean_turns` and `mean_spent` are means over records; `unit` is "tokens" or "turns". `accuracy`
    is that of the rule, `fixed_accuracy` that of a mix of two fixed numbers of turns that costs the
    same; `gain` is the paired difference between the two.
    """

    arm: ArmTurns
    name: str
    mean_turns: float
    mean_spent: float
    unit: str
    accuracy: float
    fixed_accuracy: float
    gain: Estimate


STOPPING_RULES: Mapping[str, Callable[[Turns, int], bool]] = {
    "one answer": lambda turns, turn: turns.at(turn).answer is not None,
    "two alike": lambda turns, turn: (
        turn > 0 and turns.at(turn).answer == turns.at(turn - 1).answer is not None
    ),
    "first right (oracle)": lambda turns, turn: turns.at(turn).verdict is Verdict.RIGHT,
}
"""The stopping rules by name: functions that return whether the turns end after a given turn."""


def apply_stopping_rules(run: RunScores) -> Iterator[StoppingRule]:
    """Yield every rule applied to the recorded turns of every arm, without further calls.

    `two alike` stops when an answer is given twice in a row, `one answer` at the first readable
    reply, and `first right` at the first correct answer, as an upper bound. Each rule is compared
    with fixed numbers of turns at the same mean cost, which is measured in tokens, or in turns if
    tokens were not counted.
    """
    for arm in read_turns(run):
        clusters = arm.clusters
        every, rows = range(arm.last + 1), np.arange(len(arm.records))
        values = np.array([[turns.at(t).score.value for t in every] for turns in arm.records])
        counted = arm.tokens(arm.last) > 0
        spent = np.array([[turns.spent(turn, counted) for turn in every] for turns in arm.records])
        prices = spent.mean(axis=0)
        for name, holds in STOPPING_RULES.items():
            stops = np.array([turns.first(holds) for turns in arm.records])
            mean = float(spent[rows, stops].mean())
            upper = int(np.argmax([*(prices >= mean - 1e-9), True]))
            upper = min(upper, arm.last)
            lower = max(0, upper - 1)
            gap = prices[upper] - prices[lower]
            share = min(1.0, max(0.0, (mean - prices[lower]) / gap)) if gap > 0 else 1.0
            mine, fixed = (
                values[rows, stops],
                (1 - share) * values[:, lower] + share * values[:, upper],
            )
            ends = fmean(mine), fmean(fixed)
            gain = mean_difference(mine - fixed, clusters)
            unit, stop = "tokens" if counted else "turns", float(stops.mean()) + 1
            yield StoppingRule(arm, name, stop, mean, unit, *ends, gain)


STOPPING_COLUMNS: Columns[StoppingRule] = (
    *attribute_columns("contestant", "task", of="arm.scores"),
    Column("stop at", "name", text),
    Column("turns", "mean_turns", "{:.2f}"),
    Column("spent\nper sample", lambda rule: f"{rule.mean_spent:,.1f} {rule.unit}"),
    Column("accuracy\n%", "accuracy", percent),
    Column("fixed turns,\nsame cost %", "fixed_accuracy", percent),
    Column("gain", "gain", change_cell),
    Column("p", "gain.p", format_p),
)


# ---- accuracy by whether the mark was seen

SEEN_NOTE = (
    "A mark counts as seen if the question about it (`asked`) was answered right; some of these"
    " answers are guesses. `errors unseen` is the share of wrong answers whose mark was not seen;"
    " BLINK's authors attributed 20.0 % of 140 errors of GPT-4V to hallucinated mark positions."
)
ALL_ASPECTS = "all of these"


@dataclass(frozen=True)
class SeenMarks:
    """The samples of an arm whose contestant was also asked about their marks: the scores of the
    samples whose mark was seen and of the others, and the clusters of all.

    `asked` is the aspect of the marks that the questions are about.
    """

    contestant: str
    task: str
    asked: str
    seen_scores: Mapping[str, float]
    unseen_scores: Mapping[str, float]
    clusters: Mapping[str, str]

    @property
    def seen_share(self) -> Estimate:
        """The share of samples whose mark was seen."""
        marks = dict.fromkeys(self.seen_scores, 1.0) | dict.fromkeys(self.unseen_scores, 0.0)
        return self._compute_mean(marks)

    @property
    def accuracy_if_seen(self) -> Estimate | None:
        """The accuracy on samples whose mark was seen."""
        return self._compute_mean(self.seen_scores) if self.seen_scores else None

    @property
    def accuracy_if_unseen(self) -> Estimate | None:
        """The accuracy on samples whose mark was not seen."""
        return self._compute_mean(self.unseen_scores) if self.unseen_scores else None

    @property
    def unseen_error_share(self) -> float | None:
        """The share of wrong answers whose mark was not seen."""
        seen, unseen = (
            sum(1 - v for v in part.values()) for part in (self.seen_scores, self.unseen_scores)
        )
        return unseen / (seen + unseen) if seen + unseen else None

    def _compute_mean(self, values: Mapping[str, float]) -> Estimate:
        return share_interval([*values.values()], [*map(self.clusters.__getitem__, values)])


SEEN_COLUMNS: Columns[SeenMarks] = (
    *attribute_columns("contestant", "task", "asked"),
    Column("mark seen\n%", "seen_share", share_cell),
    Column("n", lambda line: len(line.seen_scores) + len(line.unseen_scores)),
    Column("right if\nseen %", "accuracy_if_seen", share_cell),
    Column("right if\nunseen %", "accuracy_if_unseen", share_cell),
    Column("errors\nunseen %", "unseen_error_share", percent),
)


def find_seen_marks(run: RunScores) -> Iterator[SeenMarks]:
    """Yield, for every arm whose contestant was also asked about the marks of its samples, a line
    per question about the marks, and one for all these questions together."""
    arms = defaultdict[str, list[PointScores]](list)
    for scores in run.points:
        arms[scores.contestant].append(scores)
    for contestant, own in arms.items():
        for scores in own:
            marks = defaultdict[str, dict[str, float]](dict)
            for about in own:
                for name, value in about.comparable_values.items():
                    row = about.samples[name]
                    aspect, of = row.meta.get("aspect"), str(row.meta.get("of"))
                    # with the answer "no", no mark was drawn
                    if (
                        aspect
                        and of in scores.comparable_values
                        and row.truth.get("answer") != "no"
                    ):
                        for kind in (aspect, ALL_ASPECTS):
                            marks[kind][of] = min(value, marks[kind].get(of, 1.0))
            whole = marks.pop(ALL_ASPECTS, {})
            for kind, values in [
                *marks.items(),
                *([(ALL_ASPECTS, whole)] if len(marks) > 1 else []),
            ]:
                parts: tuple[dict[str, float], dict[str, float]] = {}, {}
                for sample, value in values.items():
                    parts[value < 1][sample] = scores.comparable_values[sample]
                yield SeenMarks(contestant, scores.task, kind, *parts, scores.clusters)


FURTHER_TURNS_ANALYSIS = Analysis(
    "turns",
    "What further turns changed",
    make_table_builder(TURN_COLUMNS, list_turn_lines, keep_empty=False, omit_constant="task"),
)
STOPPING_ANALYSIS = Analysis(
    "stopping",
    "When to stop",
    make_table_builder(STOPPING_COLUMNS, apply_stopping_rules, omit_constant="task"),
)
SEEN_ANALYSIS = Analysis(
    "seen",
    "Was the mark seen?",
    make_table_builder(SEEN_COLUMNS, find_seen_marks, keep_empty=False),
    SEEN_NOTE,
    needs="a task and `MarkQuestions` about it",
)
