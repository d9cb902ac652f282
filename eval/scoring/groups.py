"""Metrics over groups of samples that count as one unit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from looktwice.eval.scoring.metrics import CIRCULAR_METRIC, list_right_by_draw
from looktwice.eval.scoring.verdict import Levels, Metric, PointScores, Samples, Scorer

Groups = Mapping[str, Sequence[str]]


def group_by(samples: Samples, *fields: str) -> dict[str, list[str]]:
    """Group the samples by the values of these meta fields; a sample that lacks one of them is in
    no group."""
    groups = defaultdict[str, list[str]](list)
    for name, row in samples.items():
        values = [row.meta.get(field) for field in fields]
        if None not in values:
            groups[" ".join(map(str, values))].append(name)
    return dict(groups)


def compute_group_metric(
    metric: str,
    unit: str,
    scores: PointScores,
    groups: Groups,
    rule: Callable[[Iterable[bool]], bool] = all,
) -> Metric:
    """Return the share of groups whose samples satisfy `rule`, averaged over draws.

    A group without samples never satisfies the rule. A group with a failed sample counts, but not
    in a paired test; a group with a sample that was not asked is left out.
    """
    units = dict[str, float]()
    for name, members in groups.items():
        draws = list_right_by_draw(scores.draws(sample) for sample in members)
        if draws or not members:
            units[name] = fmean(map(rule, draws)) if draws else 0.0
    failed = (
        name for name, members in groups.items() if {*members} - scores.comparable_values.keys()
    )
    return Metric(
        metric, units, unit, frozenset(failed), clusters=find_group_clusters(scores, groups)
    )


def find_group_clusters(scores: PointScores, groups: Groups) -> dict[str, str]:
    """Return the cluster of each group; groups whose members share a cluster, directly or through
    other groups, belong to the same cluster."""
    of_cluster = dict[str, str]()

    def find_root(cluster: str) -> str:
        while of_cluster.setdefault(cluster, cluster) != cluster:
            cluster = of_cluster[cluster]
        return cluster

    for members in groups.values():
        joined = sorted({find_root(scores.clusters[sample]) for sample in members})
        of_cluster |= dict.fromkeys(joined, joined[0]) if joined else {}
    return {
        name: find_root(scores.clusters[members[0]]) for name, members in groups.items() if members
    }


@dataclass(frozen=True)
class AllRight(Scorer):
    """A scorer that counts samples with the same value of a meta field as one unit, which is right
    if all of its samples are right.

    `by` is the field, `metric` the name of the metric. VLMEvalKit's circular files have one row per
    rotation.
    """

    by: str = "circle"
    metric: str = CIRCULAR_METRIC

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the share of groups whose samples are all right."""
        groups = group_by(scores.keyed_samples, self.by)
        return [compute_group_metric(self.metric, self.by, scores, groups)] if groups else []

    def chance(self, samples: Samples) -> Levels:
        """Return the mean over groups of the product of 1 / (number of choices) over the samples of
        a group."""
        levels = []
        for members in group_by(samples, self.by).values():
            level = 1.0
            for name in members:
                level /= samples[name].n_choices or float("inf")
            levels.append(level)
        return {self.metric: sum(levels) / len(levels)} if levels and min(levels) > 0 else {}
