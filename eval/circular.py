"""Circular evaluation: a question counts only if it is answered right under every rotation of its choices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from looktwice.eval.metrics import Row
from looktwice.eval.own_metrics import filled
from looktwice.eval.records import PointRow, SampleRow
from looktwice.eval.score import PointScores, RunScores
from looktwice.eval.scorer import Figure, Scorer
from looktwice.eval.units import figure, grouped, keyed, rights
from looktwice.pipelines.model import canonical

__all__ = ["AllRight", "circular_rows"]

ROTATES = ("prompting.permute.PermuteChoices", "prompting.permute.PermuteLabels")


@dataclass(frozen=True)
class AllRight(Scorer):
    """Samples that share a meta field count as one, right only if all of them are: rotations, pairs, groups.

    `by` is the field, `metric` the name of the figure. VLMEvalKit's circular files have one row per rotation.
    """

    by: str = "circle"
    metric: str = "circular_accuracy"

    def figures(self, scores: PointScores) -> Sequence[Figure]:
        """The share of groups that are right as a whole."""
        groups = grouped(keyed(scores), self.by)
        return [figure(self.metric, self.by, scores, groups)] if groups else []

    def chance(self, samples: Mapping[str, SampleRow]) -> Mapping[str, float]:
        """The mean over groups of the product of one over the number of choices."""
        levels = []
        for held in grouped(samples, self.by).values():
            level = 1.0
            for name in held:
                level /= len(samples[name].sample["choices"]) or float("inf")
            levels.append(level)
        return {self.metric: sum(levels) / len(levels)} if levels and min(levels) > 0 else {}


def circular_rows(run: RunScores) -> list[Row]:
    """A row for each contestant whose choices were rotated by a sweep: all rotations of a sample must be right.

    Points belong together if they differ in nothing but the `by` of one rotating stage. A sample counts where every
    rotation of its choices was asked.
    """
    families: dict[str, dict[int, PointScores]] = defaultdict(dict)
    for scores in run.points:
        slot = _rotating(scores.point)
        if slot:
            families[_family(scores.point, slot)][scores.point.spec["stages"][slot]["by"]] = scores
    rows = (_row(run, held) for held in families.values() if len(held) > 1)
    return [row for row in rows if row is not None]


def _row(run: RunScores, held: Mapping[int, PointScores]) -> Row | None:
    first = held[min(held)]
    units: dict[str, float] = {}
    for name, sample in keyed(first).items():
        count = len(sample.sample["choices"])
        if count and {by % count for by in held} == set(range(count)):
            draws = list(zip(*(rights(scores, name) for scores in held.values()), strict=False))
            units[name] = sum(all(draw) for draw in draws) / len(draws)
    if not units:
        return None
    point = first.point
    facts: dict[str, Any] = {name: str(point.facts.get(name) or "") for name in ("split", "label_version")}
    who = f"{point.contestant} [{len(held)} rotations]"
    plain = Row(run.name, "", who, first.task, "", "", None, name=point.task, reader=first.reader, **facts)
    return replace(filled(Figure("circular_accuracy", units), plain), n_groups=len(held))


def _rotating(point: PointRow) -> str:
    """The slot of the one stage that rotates the choices; empty where there is none."""
    stages: Mapping[str, Any] = point.spec.get("stages") or {}
    found = [
        slot
        for slot, node in stages.items()
        if isinstance(node, Mapping) and node.get("use") in ROTATES and node.get("order") == "rotated"
    ]
    return found[0] if len(found) == 1 else ""


def _family(point: PointRow, slot: str) -> str:
    stages = {**point.spec["stages"], slot: {**point.spec["stages"][slot], "by": None}}
    return canonical([point.contestant, point.task_id, point.seed, {**point.spec, "stages": stages}])
