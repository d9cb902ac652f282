"""Compares contestants with their baseline: a paired test on the units that both have, and Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores
from looktwice.eval.statistics.significance import holm, paired_test


def accuracy_to_compare(scores: PointScores) -> Metric:
    """Accuracy for a paired test: failed or missing samples are excluded and not counted as wrong."""
    values = scores.comparable
    units = {name: values.get(name, 0.0) for name, row in scores.samples.items() if row.answer is not None}
    return Metric("accuracy", units, failed=frozenset(units.keys() - values.keys()))


def compare(row: Row, baseline: str, pairs: Sequence[tuple[Metric, Metric]]) -> Row:
    """The row with the exact paired test of a metric against the baseline.

    Each pair is one task: (metric of the contestant, metric of the baseline). The test pools the units of all pairs
    that both sides have and neither side failed; the others are counted as excluded.
    """
    mine: list[float] = []
    others: list[float] = []
    total = 0
    for metric, other in pairs:
        shared = [name for name in metric.units if name in other.units and name not in metric.failed | other.failed]
        mine += [metric.units[name] for name in shared]
        others += [other.units[name] for name in shared]
        total += len(metric.units.keys() | other.units.keys())
    row = replace(row, baseline=baseline, excluded=total - len(mine))
    if not mine:
        return row
    test = paired_test(mine, others)
    row = replace(row, delta=test.delta, p=test.p, discordant=test.discordant)
    if len(pairs) == 1 and not row.excluded:
        value, rival = pairs[0][0].value, pairs[0][1].value
        if value is not None and rival is not None:  # a metric that is not the mean of its units
            row = replace(row, delta=value - rival)
    return row


def correct_p_values(rows: Sequence[Row]) -> list[Row]:
    """The rows with Holm's correction of accuracy: over all comparisons on single tasks, and over those of micro."""
    corrected = list(rows)
    tested = [i for i, row in enumerate(rows) if row.metric == "accuracy" and row.p is not None]
    for pooled in (False, True):
        family = [i for i in tested if (rows[i].task == "micro") is pooled]
        for i, p in zip(family, holm([rows[i].p or 0.0 for i in family]), strict=True):
            corrected[i] = replace(rows[i], p_holm=p)
    return corrected
