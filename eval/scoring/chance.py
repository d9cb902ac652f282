"""What a value stands beside: the majority class and the levels that guessing reaches, and
people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.benchmark import Metric, Scorer
from looktwice.eval.scoring.benchmark_rows import is_benchmark_metric, total_rows
from looktwice.eval.scoring.row import Row, fill, macro_row, micro_row, published_names
from looktwice.eval.scoring.verdict import PointScores, RunScores

MAJORITY, CHANCE, GUESSER = "majority (key)", "chance (level)", "guesser (level)"


def majority_and_chance(scores: PointScores, plain: Row) -> list[Row]:
    """A row for the majority class, one with the chance level of accuracy and of each metric that
    has one, and one for whoever sees all but what is asked for, where the benchmark's scorer knows
    it.

    There is no majority row if the key is not an answer but, for example, the number of points a
    judge can give.
    """
    samples = scores.keyed
    if not samples:
        return []
    scorer: Scorer | None = scores.scorer
    plain = replace(plain, point="", metric="accuracy", n=len(samples), reader="")
    rows = []
    if scorer is None or scorer.key_is_answer:
        [(key, count)] = Counter(sorted(row.answer or "" for row in samples.values())).most_common(
            1
        )
        units = {name: float(row.answer == key) for name, row in samples.items()}
        majority = replace(
            fill(plain, Metric("accuracy", units, clusters=scores.clusters)), contestant=MAJORITY
        )
        rows.append(
            replace(majority, right=count, wrong=len(samples) - count, unreadable=0, failed=0)
        )
    levels = chance_levels(samples, None if plain.slice else scorer)
    ordered = sorted(levels, key=lambda metric: metric != "accuracy")
    rows += [
        replace(plain, contestant=CHANCE, metric=metric, value=levels[metric]) for metric in ordered
    ]
    guessed = scorer.guesser(samples) if scorer is not None else None
    return rows if guessed is None else [*rows, replace(plain, contestant=GUESSER, value=guessed)]


def chance_levels(samples: Mapping[str, SampleRow], scorer: Scorer | None) -> Mapping[str, float]:
    """What guessing reaches, by metric: one over the number of choices, else what the benchmark's
    scorer says."""
    levels = dict(scorer.chance(samples)) if scorer is not None else {}
    choices = [row.n_choices for row in samples.values()]
    return (
        {**levels, "accuracy": fmean(1 / number for number in choices)} if all(choices) else levels
    )


def published_people(run: RunScores) -> Mapping[str, float]:
    """What people reach in percent, by task, `task.metric` or total: the rows of `published:` that
    are of `people`.

    Rows of another split than that of the task, for a total of any task, are left out. Where
    several rows name the same, the first counts.
    """
    levels: dict[str, float] = {}
    for row in (run.config.get("published") or {}).values():
        for name, value in (row.get("accuracy") or {}).items() if row.get("people") else ():
            if not of_another_split(run, row, str(name)):
                levels.setdefault(str(name), float(value))
    return levels


def of_another_split(run: RunScores, published: Mapping[str, Any], name: str) -> bool:
    """Whether the value of this name in a row of `published:` is of another split than the run's,
    where both say."""
    splits = {scores.point.task: scores.point.facts.get("split") for scores in run.points}
    asked = (
        {splits[name.partition(".")[0]]} if name.partition(".")[0] in splits else {*splits.values()}
    )
    return (
        any(split and split != published["split"] for split in asked)
        if published.get("split")
        else False
    )


def beside_people(rows: Sequence[Row], people: Mapping[str, float]) -> list[Row]:
    """The rows, those that are no slice with what people reach there."""
    levels = (
        [people[name] for name in published_names(row) if name in people and not row.slice]
        for row in rows
    )
    return [
        replace(row, people=found[0] / 100) if found else row
        for row, found in zip(rows, levels, strict=True)
    ]


def mean_levels(tasks: Sequence[PointScores], rows: Sequence[Row]) -> list[Row]:
    """The majority and chance rows of all tasks with their macro and micro, then the totals of the
    benchmarks."""
    out: list[Row] = []
    own = [row for row in rows if is_benchmark_metric(row)]
    names = list(dict.fromkeys(row.contestant for row in rows if row not in own))
    for name in names:
        mine = [row for row in rows if row.contestant == name and row not in own]
        out += [*mine, macro_row(mine), micro_row(mine)]
    totals = [
        row
        for name in names
        for row in total_rows(tasks, [r for r in rows if r.contestant == name])
    ]
    return out + own + totals
