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
from looktwice.eval.scoring.measurements import MEASURED, TURNS
from looktwice.eval.scoring.row import METRICS, Row, fill
from looktwice.eval.scoring.verdict import PointScores, RunScores

MAJORITY, CHANCE, GUESSER = "majority (key)", "chance (level)", "guesser (level)"


def is_benchmark_metric(row: Row) -> bool:
    """Whether the metric of a row is specific to a benchmark; every task has the others."""
    return row.metric not in (*METRICS, "missing") and not row.metric.startswith((MEASURED, TURNS))


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
        keys = Counter(sorted(row.answer or "" for row in samples.values()))
        [(key, right)] = keys.most_common(1)
        units = {name: float(row.answer == key) for name, row in samples.items()}
        majority = fill(plain, Metric("accuracy", units, clusters=scores.clusters))
        majority = replace(majority, contestant=MAJORITY, right=right, wrong=len(samples) - right)
        rows.append(replace(majority, unreadable=0, failed=0))
    levels = chance_levels(samples, None if plain.slice else scorer)
    for metric in sorted(levels, key=lambda metric: metric != "accuracy"):
        rows.append(replace(plain, contestant=CHANCE, metric=metric, value=levels[metric]))
    if scorer is not None and (guessed := scorer.guesser(samples)) is not None:
        rows.append(replace(plain, contestant=GUESSER, value=guessed))
    return rows


def chance_levels(samples: Mapping[str, SampleRow], scorer: Scorer | None) -> Mapping[str, float]:
    """What guessing reaches, by metric: one over the number of choices, else what the benchmark's
    scorer says."""
    levels = dict(scorer.chance(samples)) if scorer is not None else {}
    choices = [row.n_choices for row in samples.values()]
    return levels | {"accuracy": fmean(1 / n for n in choices)} if all(choices) else levels


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
    wanted, task = published.get("split"), name.partition(".")[0]
    splits = {scores.point.task: scores.point.facts.get("split") for scores in run.points}
    asked = [splits[task]] if task in splits else [*splits.values()]
    return bool(wanted) and any(split and split != wanted for split in asked)


def published_names(row: Row) -> tuple[str, ...]:
    """The names that `published:` may have for this value: the task, or `task.metric`, or the
    metric of a total."""
    if row.metric == "accuracy":
        return (row.task_name or row.task,)
    return (f"{row.task_name}.{row.metric}", *(() if row.point else (row.metric,)))


def beside_people(rows: Sequence[Row], people: Mapping[str, float]) -> list[Row]:
    """The rows, those that are no slice with what people reach there."""
    beside = []
    for row in rows:
        level = next((people[name] for name in published_names(row) if name in people), None)
        known = level is not None and not row.slice
        beside.append(replace(row, people=level / 100) if known and level is not None else row)
    return beside
