"""Grouped scoring: pairs, image groups and circular evaluation count as one unit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from looktwice.eval.records.records import PointRow, SampleRow
from looktwice.eval.scoring.benchmark import Metric, Scorer
from looktwice.eval.scoring.row import Row, empty_row, fill
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, Verdict
from looktwice.pipelines.config.spec import public_path
from looktwice.pipelines.model import canonical
from looktwice.prompting.controls import PermuteChoices, PermuteLabels

Groups = Mapping[str, Sequence[str]]


def group_by(samples: Mapping[str, SampleRow], *fields: str) -> dict[str, list[str]]:
    """The samples by the values of these meta fields; a sample that lacks one of them is in no
    group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, row in samples.items():
        values: list[Any] = [row.meta.get(field) for field in fields]
        if None not in values:
            groups[" ".join(str(value) for value in values)].append(name)
    return dict(groups)


def right_by_draw(together: Iterable[Sequence[ScoredRecord | None]]) -> list[tuple[bool, ...]]:
    """For each draw in which all of these were asked: whether each of them was answered right."""
    draws = (
        tuple(s for s in draw if s is not None)
        for draw in zip(*together, strict=False)
        if None not in draw
    )
    return [tuple(scored.verdict is Verdict.RIGHT for scored in draw) for draw in draws]


def group_metric(
    metric: str,
    unit: str,
    scores: PointScores,
    groups: Groups,
    rule: Callable[[Iterable[bool]], bool] = all,
) -> Metric:
    """The share of groups whose samples satisfy `rule`, as the mean over draws.

    A group without samples never does. A group with a failed sample counts, but not in a paired
    test; one of which a sample was not asked falls out.
    """
    usable = scores.comparable
    units: dict[str, float] = {}
    for name, members in groups.items():
        draws = right_by_draw(scores.draws(sample) for sample in members)
        if draws or not members:
            units[name] = fmean(map(rule, draws)) if draws else 0.0
    failed = (
        name for name, members in groups.items() if any(sample not in usable for sample in members)
    )
    return Metric(metric, units, unit, frozenset(failed), clusters=clusters_of(scores, groups))


def clusters_of(scores: PointScores, groups: Groups) -> dict[str, str]:
    """The cluster of each group: groups whose members share a cluster, directly or by other groups,
    are in one."""
    of_cluster: dict[str, str] = {}

    def first(cluster: str) -> str:
        while of_cluster.setdefault(cluster, cluster) != cluster:
            cluster = of_cluster[cluster]
        return cluster

    for members in groups.values():
        joined = sorted({first(scores.clusters[sample]) for sample in members})
        of_cluster |= dict.fromkeys(joined, joined[0]) if joined else {}
    return {name: first(scores.clusters[members[0]]) for name, members in groups.items() if members}


@dataclass(frozen=True)
class AllRight(Scorer):
    """Samples with the same value of a meta field count as one unit, which is right if all of them
    are right.

    `by` is the field, `metric` the name of the metric. VLMEvalKit's circular files have one row per
    rotation.
    """

    by: str = "circle"
    metric: str = "circular_accuracy"

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """The share of groups that are right as a whole."""
        groups = group_by(scores.keyed, self.by)
        return [group_metric(self.metric, self.by, scores, groups)] if groups else []

    def chance(self, samples: Mapping[str, SampleRow]) -> Mapping[str, float]:
        """The mean over groups of the product of one over the number of choices."""
        levels = []
        for members in group_by(samples, self.by).values():
            level = 1.0
            for name in members:
                level /= samples[name].n_choices or float("inf")
            levels.append(level)
        return {self.metric: sum(levels) / len(levels)} if levels and min(levels) > 0 else {}


def circular_rows(run: RunScores) -> list[Row]:
    """Circular evaluation: a row for each contestant with rotated choices; all rotations of a
    sample must be right.

    Points belong together if they differ only in the `by` of one rotating stage. Only samples of
    which every rotation was asked count.
    """
    families: dict[str, dict[int, PointScores]] = defaultdict(dict)
    for scores in run.points:
        slot = _rotating_slot(scores.point)
        if slot:
            families[_family(scores.point, slot)][scores.point.spec["stages"][slot]["by"]] = scores
    rows = (_row(run, rotations) for rotations in families.values() if len(rotations) > 1)
    return [row for row in rows if row is not None]


def _row(run: RunScores, by_rotation: Mapping[int, PointScores]) -> Row | None:
    first = by_rotation[min(by_rotation)]
    units: dict[str, float] = {}
    for name, sample in first.keyed.items():
        count = sample.n_choices
        if count and {by % count for by in by_rotation} == set(range(count)):
            draws = right_by_draw(scores.draws(name) for scores in by_rotation.values())
            if draws:
                units[name] = fmean(map(all, draws))
    if not units:
        return None
    plain = replace(
        empty_row(run, first),
        point="",
        contestant=f"{first.point.contestant} [{len(by_rotation)} rotations]",
    )
    metric = Metric("circular_accuracy", units, clusters=first.clusters)
    return replace(fill(plain, metric), n_groups=len(by_rotation))


def _rotating_slot(point: PointRow) -> str:
    """The slot of the only stage that rotates the choices; empty if there is none or several."""
    rotate = public_path(PermuteChoices), public_path(PermuteLabels)
    stages: Mapping[str, Any] = point.spec.get("stages") or {}
    slots = [
        slot
        for slot, node in stages.items()
        if isinstance(node, Mapping)
        and node.get("use") in rotate
        and node.get("order") == "rotated"
    ]
    return slots[0] if len(slots) == 1 else ""


def _family(point: PointRow, slot: str) -> str:
    stages = {**point.spec["stages"], slot: {**point.spec["stages"][slot], "by": None}}
    return canonical(
        [point.contestant, point.task_id, point.seed, {**point.spec, "stages": stages}]
    )
