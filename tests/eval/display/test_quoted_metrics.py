"""The headline metrics of benchmarks, in the tables for terminal and notebook."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from looktwice.eval.display.table import score_table
from looktwice.eval.scoring import AllRight, Metric, Scorer
from looktwice.eval.scoring.verdict import PointScores
from tests.made_run import MadeRun
from tests.optional import extension

toolkits = extension("toolkits")


@dataclass(frozen=True)
class FirstHalf(Scorer):
    """A custom scorer without `headlines`."""

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the share of right answers among the first two samples, and one for a slice."""
        units = {name: first.score.value for name, first in list(scores.first_records.items())[:2]}
        return [Metric("first_half", units), Metric("part", units, slice="x=1")]


@dataclass(frozen=True)
class WithoutHeadlines(FirstHalf):
    """A scorer whose metrics appear only in report.csv and report.md."""

    headlines: ClassVar[tuple[str, ...]] = ()


PAIRS = {"pair": ("circle",)}


@pytest.mark.parametrize(
    ("make", "metric", "values"),
    [
        (AllRight, "circular_accuracy", ["0.0", "50.0"]),
        (lambda: AllRight(metric="all"), "all", ["0.0", "50.0"]),
        (lambda: toolkits.BenchmarkScorer(PAIRS), "pair", ["0.0", "50.0"]),
        (lambda: toolkits.BenchmarkScorer(mean_of=("circle",)), "mean_accuracy", ["50.0", "75.0"]),
        (FirstHalf, "first_half", ["50.0", "100.0"]),
        (FirstHalf, "part", []),
        (WithoutHeadlines, "first_half", []),
        (lambda: toolkits.BenchmarkScorer(PAIRS, headlines=()), "pair", []),
        (
            lambda: toolkits.BenchmarkScorer(PAIRS, ("circle",), headlines=("mean_accuracy",)),
            "pair",
            [],
        ),
    ],
)
def test_every_metric_of_a_scorer_without_hidden_metrics_is_shown(
    made: MadeRun,
    make: Callable[[], Scorer],
    metric: str,
    values: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Always A is right in no circle; regression: the terminal showed only 50 %."""
    monkeypatch.setattr("looktwice.eval.scoring.score.build_scorer", lambda *given: make())
    made.task("t", "ABAB", meta=[{"circle": name} for name in "1122"])
    for name, answers in (("constant", "AAAA"), ("sees", "ABAA")):
        made.answers(made.point(name, "t", facts={"scorer": {"use": "any"}}), answers)
    table = score_table(made.write().path)
    lines = [line.strip() for line in repr(table).splitlines()]
    starts = [number for number, line in enumerate(lines) if line == f"t: {metric}"]
    assert [lines[start + n].split()[1] for start in starts for n in (1, 2)] == values
    header, _, *rows = (line.split(" | ") for line in table._repr_markdown_().splitlines()[:4])
    names = [re.sub("<br>| ", "_", cell).removesuffix("_%") for cell in header]
    columns = [number for number, name in enumerate(names) if name == metric]
    assert [row[number] for row in rows for number in columns] == values


def test_a_sweep_of_rotations_shows_its_circular_accuracy(made: MadeRun) -> None:
    made.task("t", "AB")
    for by in (0, 1):
        stage = {"use": "prompting.controls.PermuteChoices", "order": "rotated", "by": by}
        changes, node = {"stages.turn.by": by}, {"stages": {"turn": stage}}
        made.answers(made.point("plain", "t", changes=changes, spec=node), "AA")
    lines = [line.split() for line in repr(score_table(made.write().path)).splitlines()]
    start = lines.index(["t:", "circular_accuracy"])
    assert lines[start + 1][:4] == ["plain", "[2", "rotations]", "50.0"]
