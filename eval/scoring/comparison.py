"""Compares contestants with their baseline on the units that both have, and corrects for many
comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores
from looktwice.eval.statistics.paired import compare_paired, correct

COMPARED = (
    "baseline",
    "excluded",
    "delta",
    "delta_low",
    "delta_high",
    "p",
    "test",
    "discordant",
    "better",
    "compared",
    "n_clusters",
    "detectable",
)
"""The columns that `compare` fills."""


def accuracy_to_compare(scores: PointScores) -> Metric:
    """Accuracy for a paired test: failed or missing samples are excluded and not counted as
    wrong."""
    values = scores.comparable
    units = {name: values.get(name, 0.0) for name in scores.keyed}
    return Metric(
        "accuracy", units, failed=frozenset(units.keys() - values.keys()), clusters=scores.clusters
    )


def compare(row: Row, baseline: str, pairs: Sequence[tuple[Metric, Metric]]) -> Row:
    """The row with the paired comparison of a metric with the baseline.

    Each pair is one task: (metric of the contestant, metric of the baseline). The comparison pools
    the units of all pairs that both sides have and neither side failed; the others are counted as
    excluded.
    """
    mine: list[float] = []
    others: list[float] = []
    clusters: list[str] = []
    total = 0
    for number, (metric, other) in enumerate(pairs):
        shared = [
            name
            for name in metric.units
            if name in other.units and name not in metric.failed | other.failed
        ]
        mine += [metric.units[name] for name in shared]
        others += [other.units[name] for name in shared]
        clusters += [metric.clusters.get(name) or f"{number}: {name}" for name in shared]
        total += len(metric.units.keys() | other.units.keys())
    row = replace(row, baseline=baseline, excluded=total - len(mine))
    if not mine:
        return row
    found = compare_paired(mine, others, clusters)
    row = replace(
        row,
        delta=found.value,
        delta_low=found.low,
        delta_high=found.high,
        p=found.p,
        test=found.test,
        discordant=found.better + found.worse,
        better=found.better,
        compared=found.n,
        n_clusters=found.clusters,
        detectable=found.detectable,
    )
    if len(pairs) == 1 and not row.excluded:
        value, rival = pairs[0][0].value, pairs[0][1].value
        if (
            value is not None and rival is not None
        ):  # a metric that is not the mean of its units has no such interval
            row = replace(
                row, delta=value - rival, delta_low=None, delta_high=None, detectable=None
            )
    return row


def correct_p_values(rows: Sequence[Row]) -> list[Row]:
    """The rows with the corrections of accuracy: over all comparisons on single tasks, and over
    those of micro."""
    return correct(
        rows,
        lambda row: row.p if row.metric == "accuracy" else None,
        lambda row: row.task == "micro",
    )
