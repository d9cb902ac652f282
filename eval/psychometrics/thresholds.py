"""Thresholds of the contestants of a run along a control parameter: smallest sizes, angles, contrasts, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.page.data import PageLines
from looktwice.eval.psychometrics.functions import Direction, Threshold, fit_threshold
from looktwice.eval.scoring.chance import chance_levels
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.shares import wilson

NOTE = (
    "The level at which accuracy passes the target: the median of the thresholds that the answers leave possible, and "
    "the 95 % interval by their integrated likelihood. The function is a logistic between guessing and 1 minus a lapse "
    "rate; slope and lapse rate are summed out. Where most of these thresholds lie outside the levels that were asked, "
    "it says on which side."
)


class Along(NamedTuple):
    """What is fitted: the meta field, the accuracy at the threshold, and how its levels count."""

    field: str
    target: float = 0.75
    log: bool = False
    direction: Direction | None = None

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Along | None:
        """That of the entry `thresholds` of a configuration; None where it names no field."""
        field = entry.get("along")
        if not isinstance(field, str):
            return None
        return cls(field, float(entry.get("target", 0.75)), entry.get("scale") == "log", entry.get("direction"))


@dataclass(frozen=True)
class ArmThreshold:
    """The threshold of one arm; `why` says instead why there is none."""

    contestant: str
    task: str
    guess: float
    found: Threshold | None
    why: str = ""


def find_thresholds(run: RunScores, along: Along | None = None) -> list[ArmThreshold]:
    """Of every arm whose samples have the field; `along` is that of the run's configuration if not given."""
    config = run.folder.facts.get("config") or {}
    wanted = along or Along.of(config.get("thresholds") or {})
    fitted = (_fit(scores, wanted) for scores in run.points) if wanted else ()
    return [found for found in fitted if found is not None]


def number_of(meta: Mapping[str, Any], field: str) -> float | None:
    """A meta field as a level; None where it is no number."""
    value = meta.get(field)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def threshold_table(runs: Sequence[RunScores], along: Along | None = None) -> TextTable:
    """A line per arm: its threshold with the interval, slope, lapse rate and how many questions it rests on."""
    lines = []
    for run in runs:
        for arm in find_thresholds(run, along):
            found = arm.found
            if found is None:
                lines.append((arm.contestant, arm.task, arm.why, *[""] * 6))
                continue
            said = f"{found.outside} all levels" if found.outside else f"{found.value:.4g}"
            numbers = (f"{found.low:.4g} to {found.high:.4g}", f"{found.slope:.3g}", f"{100 * found.lapse:.1f}")
            counts = (f"{100 * arm.guess:.0f}", str(sum(found.asked)), str(len(found.levels)))
            lines.append((arm.contestant, arm.task, said, *numbers, *counts))
    header = (
        "contestant", "task", "threshold", "95 % interval", "slope", "lapse %", "guessing %", "n", "levels",
    )  # fmt: skip
    return TextTable(header, tuple(lines), text_columns=2)


def threshold_lines(run: RunScores, task: str) -> list[PageLines]:
    """A chart of a task: of each contestant the answers with their intervals, and the function that was fitted."""
    wanted = Along.of((run.folder.facts.get("config") or {}).get("thresholds") or {})
    lines: dict[str, list[tuple[float, float, float, float]]] = {}
    for arm in find_thresholds(run, wanted)[:4]:
        if arm.task == task and (found := arm.found) is not None:
            asked = [each for each in zip(found.levels, found.asked, found.right, strict=True) if each[1]]
            lines[arm.contestant] = [(level, right / n, *wilson(right, n)) for level, n, right in asked]
            fitted = zip(found.levels, found.curve, strict=True)
            lines[f"{arm.contestant}, fitted"] = [(level, value, value, value) for level, value in fitted]
    return [PageLines(f"{wanted.field}, fitted", task, lines)] if wanted and lines else []


def _fit(scores: PointScores, along: Along) -> ArmThreshold | None:
    """None for an arm whose samples have no numbers there, or that was not asked."""
    levels, values = [], []
    for name, value in scores.comparable.items():
        if (level := number_of(scores.samples[name].meta, along.field)) is not None:
            levels.append(level)
            values.append(value)
    if not levels:
        return None
    keyed = {name: row for name, row in scores.samples.items() if row.answer is not None}
    guess = chance_levels(keyed, scores.scorer).get("accuracy", 0.0)
    try:
        found = fit_threshold(levels, values, guess, along.target, along.log, along.direction)
    except ValueError as exc:
        return ArmThreshold(scores.contestant, scores.task, guess, None, f"none: {exc}")
    return ArmThreshold(scores.contestant, scores.task, guess, found)
