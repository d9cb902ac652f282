"""What further turns change: accuracy by turn, answers gained and lost, what they cost, and when to
stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    change_cell,
    format_cost,
    format_p,
    percent,
    share_cell,
    table,
    text,
)
from looktwice.eval.scoring.measurements import Turns, TurnsOfArm
from looktwice.eval.scoring.verdict import Verdict
from looktwice.eval.statistics.intervals import Estimate, share_interval
from looktwice.eval.statistics.paired import compare_paired, mean_difference


@dataclass(frozen=True)
class TurnChange:
    """From one turn to a later one (counted from 0): records gained and lost, and the paired change
    of accuracy.

    `tokens` and `cost` are what the turns between add to a sample.
    """

    before: int
    after: int
    gained: int
    lost: int
    paired: Estimate
    tokens: float
    cost: float | None

    @property
    def tokens_per_point(self) -> float | None:
        """Tokens that a sample needs more for each percentage point gained; None where nothing is
        gained."""
        return self.tokens / (100 * self.paired.value) if self.paired.value > 0 else None

    @property
    def cost_per_point(self) -> float | None:
        """Money that it needs more for each."""
        if self.cost is None or self.paired.value <= 0:
            return None
        return self.cost / 100 / self.paired.value


def compare_turns(arm: TurnsOfArm, before: int, after: int) -> TurnChange:
    """What the turns between two changed."""
    old, new = arm.values(before), arm.values(after)
    clusters = [arm.scores.clusters[name] for name in new]
    paired = compare_paired([*new.values()], [*old.values()], clusters)
    gained, lost = map(sum, arm.changed(before, after))
    start, end = arm.cost(before), arm.cost(after)
    cost = None if start is None or end is None else end - start
    tokens = arm.tokens(after) - arm.tokens(before)
    return TurnChange(before, after, gained, lost, paired, tokens, cost)


@dataclass(frozen=True)
class TurnLine:
    """A line of `turn_table`: an arm after a turn, the change that it shows, and the change since
    the first turn, of which it tells the price."""

    arm: TurnsOfArm
    name: str
    turn: int
    change: TurnChange | None = None
    since: TurnChange | None = None  # the first turn

    @property
    def accuracy(self) -> Estimate:
        """The accuracy after the turn."""
        values, clusters = self.arm.values(self.turn), self.arm.scores.clusters
        return share_interval([*values.values()], [clusters[name] for name in values])

    @property
    def counts(self) -> tuple[str, str]:
        """Records gained and lost with the interval of their share; empty without a change."""
        if self.change is None:
            return "", ""
        clusters = [self.arm.scores.clusters[turns.sample] for turns in self.arm.records]
        cells = []
        for hits in self.arm.changed(self.change.before, self.change.after):
            share = share_interval(hits, clusters)
            cells.append(f"{sum(hits)}\n{percent(share.low)}–{percent(share.high)} %")
        return cells[0], cells[1]


TURN_COLUMNS: Sequence[Column[TurnLine]] = (
    Column("contestant", "arm.scores.contestant", text),
    Column("task", "arm.scores.task", text),
    Column("turn", "name", text),
    Column("n", "accuracy.n"),
    Column("accuracy\n%", "accuracy", share_cell),
    Column("wrong\nto right", lambda line: line.counts[0]),
    Column("right\nto wrong", lambda line: line.counts[1]),
    Column("change", lambda line: line.change and line.change.paired, change_cell),
    Column("p", lambda line: line.change and line.change.paired.p, format_p),
    Column("tokens\nper sample", lambda line: line.arm.tokens(line.turn), "{:,.0f}".format),
    Column("cost\nper sample", lambda line: line.arm.cost(line.turn), format_cost),
    Column("tokens per\ngained one", lambda line: line.since and _price(line.since)),
    Column(
        "cost per\ngained one", lambda line: line.since and line.since.cost_per_point, format_cost
    ),
)


def _price(change: TurnChange) -> str:
    price = change.tokens_per_point
    return "no gain" if price is None else f"{price:,.1f}"


def turn_table(arms: Sequence[TurnsOfArm]) -> TextTable:
    """A line per turn of every arm, and of more than two turns a line from the first to the
    last."""
    lines = [line for arm in arms for line in _turn_lines(arm)]
    return table(TURN_COLUMNS, lines).without_empty().without_same("task")


def _turn_lines(arm: TurnsOfArm) -> Iterator[TurnLine]:
    first, *later = arm.shown
    yield TurnLine(arm, f"{first + 1}", first)
    for before, turn in zip(arm.shown, later, strict=False):
        change, whole = compare_turns(arm, before, turn), compare_turns(arm, first, turn)
        yield TurnLine(arm, f"{turn + 1}", turn, change, whole)
    if len(later) > 1:
        whole = compare_turns(arm, first, arm.last)
        yield TurnLine(arm, f"1 to {arm.last + 1}", arm.last, whole, whole)


@dataclass(frozen=True)
class StoppingRule:
    """A rule that ends the turns early, beside stopping after a fixed number of turns at the same
    mean cost.

    `turns` and `spent` are means over records, `accuracy` is the rule's, `fixed` that of the fixed
    numbers of turns, mixed so that they cost as much; `gain` is the paired difference of the two.
    `unit` says what is spent.
    """

    arm: TurnsOfArm
    name: str
    turns: float
    spent: float
    unit: str
    accuracy: float
    fixed: float
    gain: Estimate


def _was_read(turns: Turns, turn: int) -> bool:
    return turns.at(turn).answer is not None


def _was_repeated(turns: Turns, turn: int) -> bool:
    answer = turns.at(turn).answer
    return turn > 0 and answer is not None and answer == turns.at(turn - 1).answer


def _was_right(turns: Turns, turn: int) -> bool:
    return turns.at(turn).verdict is Verdict.RIGHT


RULES: Mapping[str, Callable[[Turns, int], bool]] = {
    "one answer": _was_read,
    "two alike": _was_repeated,
    "first right (oracle)": _was_right,
}
"""After which turn a rule stops, by its name."""


def stopping_rules(arm: TurnsOfArm) -> list[StoppingRule]:
    """Every rule on the recorded turns of an arm, none of which asks anything.

    `two alike` ends when an answer is given twice in a row, `one answer` at the first reply that
    can be read, and `first right` knows the key: no rule does better. Each stands against fixed
    numbers of turns at the same mean cost: in tokens, or in turns where none were counted.
    """
    counted = arm.tokens(arm.last) > 0
    clusters = [arm.scores.clusters[turns.sample] for turns in arm.records]

    def spent(turns: Turns, turn: int) -> float:
        scored = turns.at(turn)
        tokens = scored.tokens_in + scored.tokens_out
        return tokens if counted else float(min(turn + 1, len(turns.scored)))

    def worth(stops: Sequence[int]) -> list[float]:
        """What the records are worth if each ends after its turn."""
        pairs = zip(arm.records, stops, strict=True)
        return [turns.at(stop).score.value for turns, stop in pairs]

    every = range(arm.last + 1)
    prices = [fmean(spent(turns, turn) for turns in arm.records) for turn in every]
    rules = []
    for name, holds in RULES.items():
        stops = []
        for record in arm.records:
            end = len(record.scored) - 1
            held = (turn for turn in range(min(arm.last, end + 1)) if holds(record, turn))
            stops.append(next(held, end))
        mean = fmean(map(spent, arm.records, stops))
        upper = next((turn for turn in every if prices[turn] >= mean - 1e-9), arm.last)
        lower = max(0, upper - 1)
        gap = prices[upper] - prices[lower]
        share = min(1.0, max(0.0, (mean - prices[lower]) / gap)) if gap > 0 else 1.0
        mine = worth(stops)
        below, above = (worth([turn] * len(stops)) for turn in (lower, upper))
        fixed = [(1 - share) * a + share * b for a, b in zip(below, above, strict=True)]
        gain = mean_difference([a - b for a, b in zip(mine, fixed, strict=True)], clusters)
        unit, turns = "tokens" if counted else "turns", fmean(stop + 1 for stop in stops)
        rules.append(StoppingRule(arm, name, turns, mean, unit, fmean(mine), fmean(fixed), gain))
    return rules


STOPPING_COLUMNS: Sequence[Column[StoppingRule]] = (
    Column("contestant", "arm.scores.contestant", text),
    Column("task", "arm.scores.task", text),
    Column("stop at", "name", text),
    Column("turns", "turns", "{:.2f}".format),
    Column("spent\nper sample", lambda rule: f"{rule.spent:,.1f} {rule.unit}"),
    Column("accuracy\n%", "accuracy", percent),
    Column("fixed, same\ncost %", "fixed", percent),
    Column("gain", "gain", change_cell),
    Column("p", "gain.p", format_p),
)


def stopping_table(arms: Sequence[TurnsOfArm]) -> TextTable:
    """A line per rule and arm; `fixed` are whole numbers of turns, mixed at random so that they
    cost the same."""
    rules = (rule for arm in arms for rule in stopping_rules(arm))
    return table(STOPPING_COLUMNS, rules).without_same("task")
