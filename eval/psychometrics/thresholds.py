"""Thresholds of the contestants of a run along a control parameter: smallest sizes, angles,
contrasts, counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from looktwice.eval.display.text_tables import TextTable, format_p
from looktwice.eval.page.data import PageLines
from looktwice.eval.psychometrics.functions import Direction, Threshold, check_fit, fit_threshold
from looktwice.eval.scoring.chance import chance_levels
from looktwice.eval.scoring.labels import as_number
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import share_interval

NOTE = (
    "The level at which accuracy passes the target: the median of the thresholds that the answers"
    " leave possible, and the 95 % interval by their integrated likelihood. The function is a"
    " logistic between guessing and 1 minus a lapse rate; slope and lapse rate are summed out."
    " Where most of these thresholds lie outside the levels that were asked, it says on which side."
    " `rising alone` is an interval that takes for granted only that accuracy rises, or falls,"
    " along the levels. `fit p` is how often answers of the function itself would lie as far from"
    " it (deviance). Remarks: `misfit`, it is below 0.05, as where easy and hard questions share a"
    " level: take the interval by rising alone. `unlike`: the draws say that questions of a level"
    " are not alike (p below 0.05 of draws dealt anew): take that interval, too. `2.0 as 1`: so"
    " many answers on shared pictures or groups tell as much as one."
)
DEALT = 999  # times that draws are dealt anew
MISFIT = 0.05  # a p below this is remarked on


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
        return cls(
            field,
            float(entry.get("target", 0.75)),
            entry.get("scale") == "log",
            entry.get("direction"),
        )


@dataclass(frozen=True)
class ArmThreshold:
    """The threshold of one arm; `why` says instead why there is none.

    `alike` is, of several draws, how often those of alike questions at the same levels would differ
    as much from question to question.
    """

    contestant: str
    task: str
    guess: float
    target: float = 0.75
    log: bool = False
    found: Threshold | None = None
    why: str = ""
    alike: float | None = None


def find_thresholds(run: RunScores, along: Along | None = None) -> list[ArmThreshold]:
    """Of every arm whose samples have the field; `along` is that of the run's configuration if not
    given."""
    wanted = along or Along.of(run.config.get("thresholds") or {})
    fitted = (_fit(scores, wanted) for scores in run.points) if wanted else ()
    return [found for found in fitted if found is not None]


def number_of(meta: Mapping[str, Any], field: str) -> float | None:
    """A meta field as a level; None where it is no number."""
    return as_number(meta.get(field))


def threshold_table(runs: Sequence[RunScores], along: Along | None = None) -> TextTable:
    """A line per arm: its threshold with the interval, slope, lapse rate and how many questions it
    rests on."""
    lines = []
    for run in runs:
        for arm in find_thresholds(run, along):
            found = arm.found
            if found is None:
                lines.append((arm.contestant, arm.task, arm.why, *[""] * 8))
                continue
            fit = check_fit(found, arm.guess, arm.target, arm.log)
            said = f"{found.outside} all levels" if found.outside else f"{found.value:.4g}"
            ends = (f"{found.low:.3g}–{found.high:.3g}", f"{fit.low:.3g}–{fit.high:.3g}")
            shape = (
                "" if fit.p is None else format_p(fit.p),
                f"{found.slope:.3g}",
                f"{100 * found.lapse:.1f}",
            )
            counts = (
                f"{100 * arm.guess:.0f}",
                f"{sum(found.asked)}/{len(found.levels)}",
                _remark(arm, fit.p),
            )
            lines.append((arm.contestant, arm.task, said, *ends, *shape, *counts))
    header = (
        *(
            "contestant",
            "task",
            "threshold",
            "95 % interval",
            "rising\nalone",
            "fit p",
            "slope",
            "lapse\n%",
        ),
        *("guess\n%", "n/\nlevels", "remark"),
    )
    return TextTable(header, lines, text_columns=2).without_empty()


def _remark(arm: ArmThreshold, fit: float | None) -> str:
    """What speaks against one function for all questions, in the words that `NOTE` explains."""
    remarks = []
    if fit is not None and fit < MISFIT:
        remarks.append("misfit")
    if arm.alike is not None and arm.alike < MISFIT:
        remarks.append("unlike")
    if arm.found is not None and arm.found.dispersion > 1.2:
        remarks.append(f"{arm.found.dispersion:.1f} as 1")
    return ", ".join(remarks)


def threshold_lines(run: RunScores, task: str) -> list[PageLines]:
    """A chart of a task: of each contestant the answers with their intervals, and the function that
    was fitted."""
    wanted = Along.of(run.config.get("thresholds") or {})
    lines: dict[str, list[tuple[float, float, float, float]]] = {}
    for arm in find_thresholds(run, wanted)[:4]:
        if wanted and arm.task == task and (found := arm.found) is not None:
            own = next(
                scores
                for scores in run.points
                if (scores.contestant, scores.task) == (arm.contestant, task)
            )
            lines[arm.contestant] = _asked(own, wanted.field)
            fitted = zip(found.levels, found.curve, strict=True)
            lines[f"{arm.contestant}, fitted"] = [
                (level, value, value, value) for level, value in fitted
            ]
    return [PageLines(f"{wanted.field}, fitted", task, lines)] if wanted and lines else []


def _fit(scores: PointScores, along: Along) -> ArmThreshold | None:
    """None for an arm whose samples have no numbers there, or that was not asked."""
    metas = {name: number_of(scores.samples[name].meta, along.field) for name in scores.comparable}
    levels = {name: level for name, level in metas.items() if level is not None}
    if not levels:
        return None
    guess = chance_levels(scores.keyed, scores.scorer).get("accuracy", 0.0)
    arm = ArmThreshold(scores.contestant, scores.task, guess, along.target, along.log)
    values = [scores.comparable[name] for name in levels]
    clusters = [scores.clusters[name] for name in levels]
    try:
        found = fit_threshold(
            [*levels.values()], values, guess, along.target, along.log, along.direction, clusters
        )
    except ValueError as exc:
        return replace(arm, why=f"none: {exc}")
    return replace(
        arm, found=found, alike=_alike(scores, levels) if scores.point.draws > 1 else None
    )


def _alike(scores: PointScores, levels: Mapping[str, float]) -> float:
    """How often draws that are dealt anew to the questions of their level make the questions differ
    as much or more."""
    by_level = defaultdict[float, list[list[float]]](list)
    for name, level in levels.items():
        by_level[level].append([draw.score.value for draw in scores.not_failed(name)])
    random, spread = np.random.default_rng(0), np.zeros(1 + DEALT)
    for questions in by_level.values():
        values, sizes = np.concatenate(questions), np.array([len(draws) for draws in questions])
        dealt = random.permuted(np.tile(values, (DEALT, 1)), axis=1)
        sums = np.add.reduceat(np.vstack([values, dealt]), np.cumsum(sizes) - sizes, axis=1)
        spread += (sums**2 / sizes).sum(axis=1)
    return float(np.mean(spread >= spread[0] - 1e-9))


def _asked(scores: PointScores, field: str) -> list[tuple[float, float, float, float]]:
    """Level, accuracy and its interval, for every level of an arm."""
    levels: dict[float, list[str]] = defaultdict(list)
    for name in scores.comparable:
        if (level := number_of(scores.samples[name].meta, field)) is not None:
            levels[level].append(name)
    lines = []
    for level, names in sorted(levels.items()):
        values, clusters = zip(
            *((scores.comparable[name], scores.clusters[name]) for name in names), strict=True
        )
        share = share_interval(values, clusters)
        lines.append((level, share.value, share.low, share.high))
    return lines
