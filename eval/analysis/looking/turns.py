"""What further turns change: accuracy by turn, answers gained and lost, what they cost, and when to
stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from looktwice.eval.display.text_tables import (
    TextTable,
    estimate_cell,
    format_cost,
    format_p,
    percent,
    share_cell,
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


def compare_turns(arm: TurnsOfArm, before: int, after: int) -> TurnChange:
    """What the turns between two changed."""
    old, new = arm.values(before), arm.values(after)
    clusters = [arm.scores.clusters[name] for name in old]
    paired = compare_paired([new[name] for name in old], [*old.values()], clusters)
    gained, lost = map(sum, arm.changed(before, after))
    costs = arm.cost(before), arm.cost(after)
    cost = None if None in costs else (costs[1] or 0.0) - (costs[0] or 0.0)
    tokens = arm.tokens(after) - arm.tokens(before)
    return TurnChange(before, after, gained, lost, paired, tokens, cost)


def turn_table(arms: Sequence[TurnsOfArm]) -> TextTable:
    """A line per turn of every arm, and of more than two turns a line from the first to the
    last."""
    header = (
        "contestant",
        "task",
        "turn",
        "n",
        "accuracy\n%",
        "wrong\nto right",
        "right\nto wrong",
        "change",
        "p",
        "tokens\nper sample",
        "cost\nper sample",
        "tokens per\ngained one",
        "cost per\ngained one",
    )
    rows = tuple(line for arm in arms for line in _lines(arm))
    return TextTable(header, rows, text_columns=3).without_empty().without_same("task")


@dataclass(frozen=True)
class StoppingRule:
    """A rule that ends the turns early, beside stopping after a fixed number of turns at the same
    mean cost.

    `turns` and `spent` are means over records, `accuracy` is the rule's, `fixed` that of the fixed
    numbers of turns, mixed so that they cost as much; `gain` is the paired difference of the two.
    `unit` says what is spent.
    """

    name: str
    turns: float
    spent: float
    unit: str
    accuracy: float
    fixed: float
    gain: Estimate


def stopping_rules(arm: TurnsOfArm) -> list[StoppingRule]:
    """Every rule on the recorded turns of an arm, none of which asks anything.

    `two alike` ends when an answer is given twice in a row, `one answer` at the first reply that
    can be read, and `first right` knows the key: no rule does better.
    """
    rules: dict[str, Callable[[Turns, int], int]] = {
        "one answer": lambda each, last: _first(
            each, last, lambda turn: each.at(turn).answer is not None
        ),
        "two alike": lambda each, last: _first(each, last, lambda turn: _alike(each, turn)),
        "first right (oracle)": lambda each, last: _first(
            each, last, lambda t: each.at(t).verdict is Verdict.RIGHT
        ),
    }
    return [_measure(arm, name, rule) for name, rule in rules.items()]


def stopping_table(arms: Sequence[TurnsOfArm]) -> TextTable:
    """A line per rule and arm; `fixed` are whole numbers of turns, mixed at random so that they
    cost the same."""
    header = (
        "contestant",
        "task",
        "stop at",
        "turns",
        "spent\nper sample",
        "accuracy\n%",
        "fixed, same\ncost %",
        "gain",
        "p",
    )
    rows = [
        (
            arm.scores.contestant,
            arm.scores.task,
            rule.name,
            f"{rule.turns:.2f}",
            f"{rule.spent:,.1f} {rule.unit}",
            percent(rule.accuracy),
            percent(rule.fixed),
            estimate_cell(rule.gain, sign=True),
            format_p(rule.gain.p),
        )
        for arm in arms
        for rule in stopping_rules(arm)
    ]
    return TextTable(header, rows, text_columns=3).without_same("task")


def _lines(arm: TurnsOfArm) -> Iterator[tuple[str, ...]]:
    shown = arm.shown
    for place, turn in enumerate(shown):
        change = compare_turns(arm, shown[place - 1], turn) if place else None
        yield _line(
            arm, f"{turn + 1}", turn, change, compare_turns(arm, 0, turn) if place else None
        )
    if len(shown) > 2:
        whole = compare_turns(arm, 0, shown[-1])
        yield _line(arm, f"1 to {shown[-1] + 1}", shown[-1], whole, whole)


def _line(
    arm: TurnsOfArm, name: str, turn: int, change: TurnChange | None, since_first: TurnChange | None
) -> tuple[str, ...]:
    values, cost = arm.values(turn), arm.cost(turn)
    share = share_interval([*values.values()], [arm.scores.clusters[name] for name in values])
    accuracy = share_cell(share)
    head = (arm.scores.contestant, arm.scores.task, name, str(len(values)), accuracy)
    spent = (f"{arm.tokens(turn):,.0f}", "" if cost is None else format_cost(cost))
    if change is None or since_first is None:
        return (*head, "", "", "", "", *spent, "", "")
    counts = (_count(arm, hits) for hits in arm.changed(change.before, change.after))
    price = since_first.tokens_per_point
    gain, added_cost = since_first.paired.value, since_first.cost
    money = "" if added_cost is None or price is None else format_cost(added_cost / 100 / gain)
    return (
        *head,
        *counts,
        estimate_cell(change.paired, sign=True),
        format_p(change.paired.p),
        *spent,
        "no gain" if price is None else f"{price:,.1f}",
        money,
    )


def _count(arm: TurnsOfArm, hits: Sequence[bool]) -> str:
    share = share_interval(hits, [arm.scores.clusters[each.sample] for each in arm.records])
    return f"{sum(hits)}\n{percent(share.low)}–{percent(share.high)} %"


def _first(each: Turns, last: int, holds: Callable[[int], bool]) -> int:
    """The first turn at which a rule holds, or the last one."""
    return next(
        (turn for turn in range(min(last, len(each.scored))) if holds(turn)),
        min(last, len(each.scored) - 1),
    )


def _alike(each: Turns, turn: int) -> bool:
    return (
        turn > 0
        and each.at(turn).answer is not None
        and each.at(turn).answer == each.at(turn - 1).answer
    )


def _measure(arm: TurnsOfArm, name: str, rule: Callable[[Turns, int], int]) -> StoppingRule:
    """A rule against fixed numbers of turns at the same mean cost: in tokens, or in turns where
    none were counted."""
    last = max(len(each.scored) for each in arm.records) - 1
    counted = arm.tokens(last) > 0

    def spent(each: Turns, turn: int) -> float:
        return _tokens(each, turn) if counted else float(min(turn + 1, len(each.scored)))

    stops = [rule(each, last) for each in arm.records]
    mean = fmean(spent(each, stop) for each, stop in zip(arm.records, stops, strict=True))
    prices = [fmean(spent(each, turn) for each in arm.records) for turn in range(last + 1)]
    upper = next((turn for turn, price in enumerate(prices) if price >= mean - 1e-9), last)
    lower = max(0, upper - 1)
    gap = prices[upper] - prices[lower]
    share = min(1.0, max(0.0, (mean - prices[lower]) / gap)) if gap > 0 else 1.0
    mine = [each.at(stop).score.value for each, stop in zip(arm.records, stops, strict=True)]
    fixed = [
        (1 - share) * e.at(lower).score.value + share * e.at(upper).score.value for e in arm.records
    ]
    clusters = [
        arm.scores.clusters[each.sample] for each in arm.records
    ]  # a sample's draws share its pictures
    gain = mean_difference([a - b for a, b in zip(mine, fixed, strict=True)], clusters)
    turns = fmean(stop + 1 for stop in stops)
    return StoppingRule(
        name, turns, mean, "tokens" if counted else "turns", fmean(mine), fmean(fixed), gain
    )


def _tokens(each: Turns, turn: int) -> float:
    return each.at(turn).tokens_in + each.at(turn).tokens_out
