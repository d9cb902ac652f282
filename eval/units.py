"""Several samples as one unit: the pair, image or group that a benchmark counts once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from looktwice.eval.metrics import comparable
from looktwice.eval.records import SampleRow
from looktwice.eval.score import PointScores, Verdict
from looktwice.eval.scorer import Figure

__all__ = ["figure", "grouped", "keyed", "rights"]

Groups = Mapping[str, Sequence[str]]


def keyed(scores: PointScores) -> dict[str, SampleRow]:
    """The samples that have a key: only of these can anything be claimed."""
    return {name: row for name, row in scores.samples.items() if row.answer is not None}


def grouped(samples: Mapping[str, SampleRow], *fields: str) -> dict[str, list[str]]:
    """The samples by the values of these meta fields; one that lacks any of them belongs to no group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, row in samples.items():
        values: list[Any] = [row.meta.get(field) for field in fields]
        if None not in values:
            groups[" ".join(str(value) for value in values)].append(name)
    return dict(groups)


def rights(scores: PointScores, sample: str) -> list[bool]:
    """Whether the sample was answered right, draw by draw; a missing record is not right."""
    return [found is not None and found.verdict is Verdict.RIGHT for found in scores.draws(sample)]


def figure(
    metric: str, unit: str, scores: PointScores, groups: Groups, rule: Callable[[Iterable[bool]], bool] = all
) -> Figure:
    """The share of groups for which `rule` holds of their samples, the mean over draws.

    A group without samples never holds. One with a sample that failed or is missing counts, but in no paired test.
    """
    usable = comparable(scores)
    units = {name: _joint([rights(scores, sample) for sample in held], rule) for name, held in groups.items()}
    failed = (name for name, held in groups.items() if any(sample not in usable for sample in held))
    return Figure(metric, units, unit, frozenset(failed))


def _joint(draws: Sequence[Sequence[bool]], rule: Callable[[Iterable[bool]], bool]) -> float:
    held = [float(rule(draw)) for draw in zip(*draws, strict=False)]
    return sum(held) / len(held) if held else 0.0
