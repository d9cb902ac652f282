"""The rows of what judges give marks for: BLINK-Twice's CoT score and its two criteria."""

from __future__ import annotations

from statistics import fmean

from looktwice.eval.metrics import Comparison, Row
from looktwice.eval.own_metrics import filled
from looktwice.eval.score import PointScores
from looktwice.eval.scorer import Figure
from looktwice.eval.stats import paired

__all__ = ["mark_rows"]


def mark_rows(scores: PointScores, plain: Row, rival: PointScores | None = None) -> list[Row]:
    """`cot_score` and its two criteria: means over the judged samples, tested against `rival` on those of both."""
    theirs = {figure.metric: figure for figure in _marks(rival)} if rival is not None else {}
    rows = []
    for figure in _marks(scores):
        row = filled(figure, plain)
        other = theirs.get(figure.metric)
        rows.append(_compared(figure, other).fill(row, rival.contestant) if rival is not None and other else row)
    return rows


def _marks(scores: PointScores) -> list[Figure]:
    values: dict[str, dict[str, list[float]]] = {}
    for entry in scores.all:
        for name, value in entry.judged.items():
            values.setdefault(name, {}).setdefault(entry.sample, []).append(value)
    means = {name: {sample: fmean(held) for sample, held in by.items()} for name, by in values.items()}
    if not means:
        return []
    both = {sample: fmean(by[sample] for by in means.values()) for sample in next(iter(means.values()))}
    return [Figure("cot_score", both, "reply"), *(Figure(f"cot_{name}", by, "reply") for name, by in means.items())]


def _compared(mine: Figure, theirs: Figure) -> Comparison:
    shared = [name for name in mine.units if name in theirs.units]
    fell_out = len(mine.units.keys() | theirs.units.keys()) - len(shared)
    test = paired([mine.units[name] for name in shared], [theirs.units[name] for name in shared]) if shared else None
    return Comparison(test, fell_out)
