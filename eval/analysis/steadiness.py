"""Whether results would come out the same again: over draws, for choices in other places, under
other settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from looktwice.eval.analysis.contestants import MAX_CONTESTANTS
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    estimate_cell,
    format_p,
    names,
    percent,
    table,
)
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, Verdict
from looktwice.eval.statistics.answers import (
    majority_value,
    pass_at_k,
    position_bias,
    split_variance,
)
from looktwice.eval.statistics.intervals import Estimate, bootstrap_mean
from looktwice.eval.statistics.settings import swap_over_settings
from looktwice.pipelines.model import canonical

DRAW_NOTE = (
    "Samples with a key of which every draw was asked and none failed; the others are left out. The"
    " standard error of accuracy is split by the mean squares of a one-way analysis of variance:"
    " what other samples would change, and what other draws of these would. pass@k: at least one of"
    " k draws is right (Chen et al. 2021). Majority: the most frequent answer of a sample, of"
    " equally frequent ones their mean. Intervals: 95 %, bootstrap over clusters."
)
POSITION_NOTE = (
    "First draws with a readable letter, by the number of choices, letters as the contestant saw"
    " them. Of each letter: how often it was chosen, and below how often it is the key. `spread` is"
    " the standard deviation of the recalls at the letters, in points (RStd, Zheng et al. 2024), p"
    " the chi-squared test that they are alike, not corrected."
)
ORDER_NOTE = (
    "Each two contestants on the samples that both have in every setting, over the tasks of both."
    " `swap`: how probably the two change places between two of the settings (markers, prompts,"
    " whatever was swept), or between two draws; a tie counts one half. Intervals: 95 %, bootstrap"
    " over clusters; few samples add swaps, so they lie rather high."
)

Values = Mapping[tuple[str, str], float]
"""By task and sample."""


def draw_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each arm with several draws: its errors from samples and from draws, pass@k, and
    the majority."""
    header = (
        "contestant",
        "task",
        "n",
        "left\nout",
        "draws",
        "accuracy %",
        "error from\nsamples",
        "error from\ndraws",
        "of variance\nin draws %",
        "pass@k %\n(k = draws)",
        "majority %",
    )
    lines = [
        line
        for run in runs
        for scores in run.points
        if scores.point.draws > 1
        for line in _draw_line(scores)
    ]
    return TextTable(header, lines, text_columns=2).without_empty()


def _whole(scores: PointScores) -> dict[str, list[ScoredRecord]]:
    """The samples with a key of which every draw was asked and none failed, with as many draws as
    all of them have."""
    asked = {name: scores.draws(name) for name in scores.keyed}
    whole = {
        name: [draw for draw in draws if draw is not None]
        for name, draws in asked.items()
        if all(draw is not None and draw.verdict is not Verdict.FAILED for draw in draws)
    }
    least = min(map(len, whole.values()), default=0)
    return {name: draws[:least] for name, draws in whole.items()}


def _draw_line(scores: PointScores) -> Iterator[tuple[str, ...]]:
    whole = _whole(scores)
    if len(whole) < 2:
        return
    clusters = [scores.clusters[name] for name in whole]
    values = [[draw.score.value for draw in draws] for draws in whole.values()]
    k, split = len(values[0]), split_variance(values)
    right = (sum(draw.verdict is Verdict.RIGHT for draw in draws) for draws in whole.values())
    any_right = bootstrap_mean([pass_at_k(count, k, k) for count in right], clusters)
    votes = [
        majority_value([draw.answer for draw in draws], worth)
        for draws, worth in zip(whole.values(), values, strict=True)
    ]
    out = len(scores.keyed) - len(whole)
    yield (
        scores.contestant,
        scores.task,
        str(len(whole)),
        str(out or ""),
        str(k),
        percent(split.mean),
        percent(split.samples_error),
        percent(split.draws_error),
        percent(split.draw_share),
        _shown(any_right),
        _shown(bootstrap_mean(votes, clusters)),
    )


def position_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each contestant and number of choices: the letters that it chose, those of the
    key, and the bias."""
    chosen = {place: pairs for run in runs for place, pairs in _chosen_letters(run).items()}
    letters = sorted({letter for pairs in chosen.values() for pair in pairs for letter in pair})
    header = (
        "contestant",
        "choices",
        *(f"{letter} %\n(key)" for letter in letters),
        "spread",
        "p",
        "n",
    )
    lines = []
    for (contestant, choices), pairs in chosen.items():
        bias = position_bias(*zip(*pairs, strict=True))
        cells = (
            (
                f"{percent(bias.chosen[letter])}\n({percent(bias.key[letter])})"
                if letter in bias.chosen
                else ""
            )
            for letter in letters
        )
        lines.append(
            (contestant, str(choices), *cells, percent(bias.spread), format_p(bias.p), str(bias.n))
        )
    return TextTable(header, lines)


def _chosen_letters(run: RunScores) -> dict[tuple[str, int], list[tuple[str, str]]]:
    """By contestant and number of choices: (answer, key) of every first draw, as letters that the
    contestant saw."""
    shown = {
        (record.point, record.sample): {own: asked for asked, own in (record.letters or {}).items()}
        for record in run.folder.last_records(holding='"letters":{')
        if record.draw == 0
    }
    pairs = defaultdict[tuple[str, int], list[tuple[str, str]]](list)
    for scores in run.points:
        for name, row in scores.samples.items():
            count, first = row.n_choices, scores.first(name)
            letters = [chr(ord("A") + number) for number in range(count)]
            if (
                count > 1
                and first is not None
                and row.answer in letters
                and first.answer in letters
            ):
                seen = shown.get((scores.point.recorded_as, name), {})
                pair = (seen.get(first.answer, first.answer), seen.get(row.answer, row.answer))
                pairs[scores.contestant, count].append(pair)
    return dict(pairs)


def order_table(runs: Sequence[RunScores]) -> TextTable:
    """A line for each two contestants that were asked under several settings or in several draws.

    Runs with `fragility:` have tables of their own for this.
    """
    header = (
        "contestant",
        "other",
        "settings",
        "leads in",
        "swap between\nsettings %",
        "draws",
        "swap between\ndraws %",
        "n",
    )
    lines = []
    for run in runs:
        arms = {} if run.config.get("fragility") else _arms(run)
        for first, rival in combinations(arms, 2) if len(arms) <= MAX_CONTESTANTS else ():
            line = _order_line(arms[first], arms[rival])
            lines += [(first, rival, *line)] if line else []
    return TextTable(header, lines, text_columns=2).without_empty()


Arms = dict[str, list[PointScores]]
"""By setting: the arms of a contestant on its tasks."""


def _arms(run: RunScores) -> dict[str, Arms]:
    by_contestant: dict[str, Arms] = {}
    for scores in run.points:
        setting = canonical(scores.point.changes)
        by_contestant.setdefault(scores.point.contestant, {}).setdefault(setting, []).append(scores)
    return by_contestant


def _order_line(mine: Arms, theirs: Arms) -> tuple[str, ...]:
    """The cells of two contestants; none where they share neither two settings nor two draws."""
    shared = [setting for setting in mine if setting in theirs]
    drawn = shared and all(_may_have_draws(side[shared[0]]) for side in (mine, theirs))
    if len(shared) < 2 and not drawn:
        return ()  # before anything is collected: mostly there is nothing to compare
    arms = [arm for arms in mine.values() for arm in arms]
    clusters = {
        (arm.point.task_id, name): cluster for arm in arms for name, cluster in arm.clusters.items()
    }
    settings = [[_values(side[setting]) for setting in shared] for side in (mine, theirs)]
    draws = [_drawn(side[shared[0]]) for side in (mine, theirs)] if shared else [[], []]
    count = min(map(len, draws))
    if len(shared) < 2 and count < 2:
        return ()
    by_setting, leads = _swap(settings, clusters) if len(shared) > 1 else (None, 0)
    by_draw = _swap([side[:count] for side in draws], clusters)[0] if count > 1 else None
    n = next((estimate.n for estimate in (by_setting, by_draw) if estimate is not None), 0)
    return (
        (
            str(len(shared)) if by_setting else "",
            f"{leads} of {len(shared)}" if by_setting else "",
            _shown(by_setting),
            str(count) if by_draw else "",
            _shown(by_draw),
            str(n or ""),
        )
        if by_setting or by_draw
        else ()
    )


def _may_have_draws(arms: Sequence[PointScores]) -> bool:
    return all(
        arm.point.draws > 1 or any(len(draws) > 1 for draws in arm.scored.values()) for arm in arms
    )


def _swap(
    sides: Sequence[Sequence[Values]], clusters: Mapping[tuple[str, str], Any]
) -> tuple[Estimate | None, int]:
    """The swaps between settings on the samples that all of them have, and in how many the first
    leads."""
    places = [
        place for place in sides[0][0] if all(place in values for side in sides for values in side)
    ]
    if not places:
        return None, 0
    first, rival = (
        np.array([[values[place] for place in places] for values in side]) for side in sides
    )
    swap = swap_over_settings(first, rival, [clusters[place] for place in places])
    return swap, int((first.mean(axis=1) > rival.mean(axis=1) + 1e-12).sum())


def _values(arms: Sequence[PointScores]) -> dict[tuple[str, str], float]:
    return {
        (arm.point.task_id, name): value for arm in arms for name, value in arm.comparable.items()
    }


def _drawn(arms: Sequence[PointScores]) -> list[dict[tuple[str, str], float]]:
    """The values of every draw, of the samples that have all of them."""
    whole = {
        (arm.point.task_id, name): draws for arm in arms for name, draws in _whole(arm).items()
    }
    most = min(map(len, whole.values()), default=0)
    return [
        {place: draws[number].score.value for place, draws in whole.items()}
        for number in range(most)
    ]


def _shown(estimate: Estimate | None) -> str:
    return "" if estimate is None else estimate_cell(estimate)


MIN_VARIANTS = 3  # with fewer a spread means little


@dataclass(frozen=True)
class _Spread:
    """The rows of a contestant's variants on a task, from the worst to the best."""

    contestant: str
    task: str
    ranked: list[Row]

    @property
    def mean(self) -> float:
        return sum(row.value or 0.0 for row in self.ranked) / len(self.ranked)

    @property
    def spread(self) -> float:
        return (self.ranked[-1].value or 0.0) - (self.ranked[0].value or 0.0)


SPREADS: tuple[Column[_Spread], ...] = (
    *names("contestant", "task"),
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
    """A line per contestant and task with at least three variants: mean, worst, best, and best
    minus worst.

    Variants are the points of one contestant that differ in its stages, model or draws, on the same
    samples.
    """
    variants: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
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
