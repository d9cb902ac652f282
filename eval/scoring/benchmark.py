"""The interface of benchmark-specific scoring: how answers are compared with the key, and metrics
beyond accuracy, such as those over groups of samples that count as one unit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, ClassVar, Protocol

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.verdict import PointScores, Score, ScoredRecord, Verdict
from looktwice.pipelines.config.build import build
from looktwice.pipelines.config.paths import Scope

Groups = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Metric:
    """One metric of one arm; `name` is its name in report.csv.

    `units` are the values (0..1) of what the metric counts, by name: samples, pairs, images or
    groups, as `unit` says. The metric is their mean unless `value` gives it; paired tests run on
    them and leave out the units in `failed`. `slice` is a part of the samples ("rows=3"), `groups`
    how many groups a test compared, `p` its result. `clusters` names the cluster of units that are
    not independent; any other unit is its own.
    """

    name: str
    units: Mapping[str, float] = field(default_factory=dict)
    unit: str = "sample"
    failed: frozenset[str] = frozenset()
    value: float | None = None
    slice: str = ""
    groups: int | None = None
    p: float | None = None
    clusters: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Total:
    """A benchmark's total over its subtasks: which metric of each enters it; it needs all of them.

    The unweighted mean of the subtasks, or, `pooled`, of all their units as one set.
    """

    metric: str
    parts: Mapping[str, str]
    pooled: bool = False


class Scorer(Protocol):
    """A frozen dataclass that a task names in its facts; methods it does not override score as for
    any task.

    `suite` and `part` say which benchmark and which of its subtasks this is, for the `totals` over
    them. `key_is_answer` is False if the key is not an answer to the question but, for example, a
    maximum number of points. `headlines` are the metrics and totals by which the benchmark itself
    is quoted: tables show them first. `needs_judge` is True if only a judge's grade is a score:
    without one a reply is neither right nor wrong.
    """

    suite: ClassVar[str] = ""
    totals: ClassVar[tuple[Total, ...]] = ()
    key_is_answer: ClassVar[bool] = True
    headlines: ClassVar[tuple[str, ...]] = ()
    needs_judge: ClassVar[bool] = False

    @property
    def part(self) -> str:
        """The subtask's name within the suite: the scorer's own, where it has one."""
        return str(getattr(self, "name", ""))

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """The score of an answer to a sample with a key; None compares it as for any task.

        A score with the verdict UNREADABLE means that the text is not an answer.
        """
        return None

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """The metrics of one arm, or of a slice of it."""
        return ()

    def chance(self, samples: Mapping[str, SampleRow]) -> Mapping[str, float]:
        """The chance level on these samples, by metric."""
        return {}

    def guesser(self, samples: Mapping[str, SampleRow]) -> float | None:
        """The accuracy of the best guesser who sees what these images show, but not what is marked
        or asked for.

        None where that is not known.
        """
        return None


def build_scorer(facts: Mapping[str, Any], scope: Scope | None = None) -> Scorer | None:
    """The scorer in a task's facts, built where it is a node; None if there is none. Raises
    ConfigError."""
    named = facts.get("scorer")
    if not named:
        return None
    built: Scorer = build(named, scope) if isinstance(named, Mapping) else named
    return built


def chance_levels(samples: Mapping[str, SampleRow], scorer: Scorer | None) -> Mapping[str, float]:
    """What guessing reaches, by metric: one over the number of choices, else what the benchmark's
    scorer says."""
    levels = dict(scorer.chance(samples)) if scorer is not None else {}
    choices = [row.n_choices for row in samples.values()]
    return levels | {"accuracy": fmean(1 / n for n in choices)} if all(choices) else levels


def group_by(samples: Mapping[str, SampleRow], *fields: str) -> dict[str, list[str]]:
    """The samples by the values of these meta fields; a sample that lacks one of them is in no
    group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, row in samples.items():
        values = [row.meta.get(field) for field in fields]
        if None not in values:
            groups[" ".join(map(str, values))].append(name)
    return dict(groups)


def right_by_draw(together: Iterable[Sequence[ScoredRecord | None]]) -> list[tuple[bool, ...]]:
    """For each draw in which all of these were asked: whether each of them was answered right."""
    return [
        tuple(scored is not None and scored.verdict is Verdict.RIGHT for scored in draw)
        for draw in zip(*together, strict=False)
        if None not in draw
    ]


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
    units: dict[str, float] = {}
    for name, members in groups.items():
        draws = right_by_draw(scores.draws(sample) for sample in members)
        if draws or not members:
            units[name] = fmean(map(rule, draws)) if draws else 0.0
    failed = (name for name, members in groups.items() if {*members} - scores.comparable.keys())
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
