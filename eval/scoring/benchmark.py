"""The interface of benchmark-specific scoring: how answers are compared with the key, and metrics
beyond accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.verdict import PointScores, Score
from looktwice.pipelines.config.build import build
from looktwice.pipelines.config.paths import Scope


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
