"""Thresholds of a run's contestants along a control parameter (size, angle, contrast, count), and
accuracy at every combination of the levels of two parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, starmap
from statistics import fmean
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from looktwice.eval.analysis.analyses import Analysis, ReportTable, make_curve_builder
from looktwice.eval.analysis.requested import AnalysisRequest
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    attribute_columns,
    format_p,
    percent,
    table,
)
from looktwice.eval.page.data import Level, PageGrid, PageLines, Point
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.labels import as_number
from looktwice.eval.scoring.metrics import compute_chance_levels
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.paired import ValueMatrix
from looktwice.extras.adaptive.fit_checks import FitCheck, check_fit
from looktwice.extras.adaptive.functions import Direction, Threshold, fit_threshold
from looktwice.pipelines.config.keys import FORBID_EXTRA

THRESHOLDS_NOTE = (
    "The threshold is the level at which accuracy passes the target: the median and the 95 %"
    " interval of its integrated likelihood. The function is a logistic between the guessing rate"
    " and 1 minus a lapse rate; slope and lapse rate are integrated out. If most of the likelihood"
    " lies outside the levels that were asked, the table names the side. `falling` means that"
    " accuracy falls along the levels and passes the target downwards. Without `direction`, one"
    " direction must fit ten times as well as the other; otherwise that of the task's other arms is"
    " used if they agree (`as others`), or there is no threshold. Answers of a staircase are fitted"
    " in its own direction. `rising alone` is an interval that assumes only that accuracy rises, or"
    " falls, along the levels. `fit p` is how often answers simulated from the function have at"
    " least this deviance. Remarks: `misfit`: this p is below 0.05, for example because easy and"
    " hard questions share a level; use the interval `rising alone`. `unlike`: the draws show that"
    " questions of a level differ in difficulty (permutation test, p below 0.05); use that"
    " interval, too. `2.0 as 1`: this many answers on shared pictures or groups carry as much"
    " information as one. `below 0`: the interval reaches below 0 although all levels are above;"
    " with `scale: log` it cannot."
)
RESHUFFLE_COUNT = 999  # permutations of the draws
MISFIT_ALPHA = 0.05  # a p below this leads to a remark


class ThresholdsEntry(TypedDict, total=False):
    """The control parameter along which to fit accuracy, and the accuracy for which to find the
    level."""

    __pydantic_config__ = FORBID_EXTRA  # type: ignore[misc]
    along: Annotated[
        str, "A meta field of the samples that holds numbers, such as a size.", "along: size"
    ]
    target: Annotated[
        float, Field(gt=0, lt=1), "The accuracy at the threshold (default: 0.75).", "target: 0.8"
    ]
    scale: Annotated[
        Literal["linear", "log"],
        "The scale of the levels: `linear` (default) or `log`.",
        "scale: log",
    ]
    direction: Annotated[
        Literal["rising", "falling"],
        "Whether accuracy rises or falls with the level (default: the direction that fits ten"
        " times as well; for a staircase `rising`).",
        "direction: falling",
    ]


class ThresholdSettings(NamedTuple):
    """The settings of a fit: the meta field, the target accuracy, and the scale and direction of
    the levels."""

    field: str
    target: float = 0.75
    is_log: bool = False
    direction: Direction | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ThresholdSettings | None:
        """Read the entry `thresholds` of a configuration; None if it names no field."""
        entry = config.get("thresholds") or {}
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
    """The threshold of one arm, or the `reason` why there is none.

    With several draws, `equal_difficulty_p` is the p-value of the hypothesis that all questions of
    a level are equally difficult. `is_borrowed` is true for a direction taken from the task's other
    arms, if the arm's own answers do not decide it and all other arms of the task agree on one.
    """

    contestant: str
    task: str
    threshold: Threshold | None = None
    reason: str = ""
    equal_difficulty_p: float | None = None
    is_borrowed: bool = False

    @cached_property
    def fit(self) -> FitCheck | None:
        """The test of how well the function fits."""
        return check_fit(self.threshold) if self.threshold else None

    @property
    def text(self) -> str:
        """The threshold as text, the side of the levels on which it lies, or the reason if it is
        missing."""
        threshold = self.threshold
        if threshold is None:
            return self.reason
        place = f"{threshold.side} all levels" if threshold.side else f"{threshold.value:.4g}"
        return f"{place}, falling" if threshold.model.direction == "falling" else place

    @property
    def answers_and_levels(self) -> str | None:
        """The numbers of answers and of levels."""
        threshold = self.threshold
        return f"{sum(counts := threshold.answer_counts)}/{len(counts)}" if threshold else None

    @property
    def remarks(self) -> str:
        """Evidence against one function for all questions, in the terms that `THRESHOLDS_NOTE`
        explains."""
        if not (self.threshold and self.fit):
            return ""
        p, dispersion, low = self.fit.p, self.threshold.dispersion, self.threshold.low
        remarks = {
            "misfit": p is not None and p < MISFIT_ALPHA,
            "unlike": self.equal_difficulty_p is not None
            and self.equal_difficulty_p < MISFIT_ALPHA,
            f"{dispersion:.1f} as 1": dispersion > 1.2,
            "as others": self.is_borrowed,
            "below 0": low < 0 < self.threshold.model.levels[0],
        }
        return ", ".join(name for name, holds in remarks.items() if holds)


def describe_missing_levels(rows: Iterable[Mapping[str, Any]], field: Any) -> str:
    """Explain that no sample has a number in the meta field `field`, and list the existing fields;
    empty if a sample has one. `rows` are the meta fields of each sample."""
    metas = list(rows)
    if any(as_number(meta.get(field)) is not None for meta in metas):
        return ""
    fields = ", ".join(sorted(set().union(*metas))) or "none"
    lacks = f"no sample has numbers in {field!r}; " if field else ""
    return f"{lacks}name a field with numbers, such as along=size. The fields are {fields}"


def find_thresholds(run: RunScores, along: ThresholdSettings | None = None) -> list[ArmThreshold]:
    """Fit a threshold for every arm whose samples have the field; `along` is by default the entry
    `thresholds` of the run's configuration. Answers of a staircase are fitted in its own direction
    unless `along` names one. If an arm's answers do not decide the direction, that of the task's
    other arms is used if they agree."""
    study = ThresholdSettings.from_config(run.config)
    wanted = along or study
    chosen: Mapping[str, Any] = run.config.get("choose") or {}
    if chosen.get("by") == "staircase" and wanted and study and study.field == wanted.field:
        wanted = wanted._replace(direction=wanted.direction or study.direction or "rising")
    if wanted is None:
        return []
    fitted = [(scores, arm) for scores in run.points if (arm := _fit_arm(scores, wanted))]
    ways, arms = defaultdict[str, set[Direction]](set), list[ArmThreshold]()
    for _, arm in fitted:
        ways[arm.task] |= {arm.threshold.model.direction} if arm.threshold else set()
    for scores, arm in fitted:
        if arm.threshold is None and wanted.direction is None and len(ways[arm.task]) == 1:
            (way,) = ways[arm.task]
            arm = _fit_arm(scores, wanted._replace(direction=way)) or arm
            arm = replace(arm, is_borrowed=True)
        arms.append(arm)
    return arms


def _format_ends(interval: Threshold | FitCheck) -> str:
    return f"{interval.low:.3g}–{interval.high:.3g}"


THRESHOLD_COLUMNS: Columns[ArmThreshold] = (
    *attribute_columns("contestant", "task"),
    Column("threshold", "text"),
    Column("95 % interval", "threshold", _format_ends),
    Column("rising\nalone", "fit", _format_ends),
    Column("fit p", "fit.p", format_p),
    Column("slope", "threshold.slope", "{:.3g}"),
    Column("lapse\n%", "threshold.lapse", percent),
    Column("guess\n%", "threshold.model.guess", partial(percent, digits=0)),
    Column("n/\nlevels", "answers_and_levels"),
    Column("remark", "remarks"),
)


def tabulate_thresholds(
    runs: Sequence[RunScores], along: ThresholdSettings | None = None
) -> TextTable:
    """Return a table with a line per arm: its threshold with the interval, slope, lapse rate and
    number of questions."""
    arms = [arm for run in runs for arm in find_thresholds(run, along)]
    return table(THRESHOLD_COLUMNS, arms).without_empty()


def chart_thresholds(run: RunScores, task: str) -> list[PageLines]:
    """Return a line chart of a task: each contestant's accuracy by level with intervals, and the
    fitted function."""
    along = ThresholdSettings.from_config(run.config)
    arms = {(scores.contestant, scores.task): scores for scores in run.points}
    if along is None:
        return []
    lines = dict[str, list[Point]]()
    for arm in find_thresholds(run, along):
        if arm.task == task and (threshold := arm.threshold) is not None:
            lines[arm.contestant] = _list_level_points(arms[arm.contestant, task], along.field)
            curve = zip(threshold.model.levels, *[threshold.curve] * 3, strict=True)
            way = ", falling" if threshold.model.direction == "falling" else ""
            lines[f"{arm.contestant}, fitted{way}"] = [*curve]
    return [PageLines(f"{along.field}, fitted", task, lines)] if lines else []


def _fit_arm(scores: PointScores, along: ThresholdSettings) -> ArmThreshold | None:
    """Fit one arm; None if its samples have no numbers in the field, or it was not asked."""
    levels = {
        name: level
        for name in scores.comparable_values
        if (level := as_number(scores.samples[name].meta.get(along.field))) is not None
    }
    if not levels:
        return None
    guess = compute_chance_levels(scores.keyed_samples, scores.scorer).get("accuracy", 0.0)
    arm = ArmThreshold(scores.contestant, scores.task)
    values = [scores.comparable_values[name] for name in levels]
    clusters = scores.clusters_of(levels)
    try:
        threshold = fit_threshold(
            [*levels.values()], values, guess, along.target, along.is_log, along.direction, clusters
        )
    except ValueError as exc:
        return replace(arm, reason=f"none: {exc}")
    alike = _test_equal_difficulty(scores, levels) if scores.point.draws > 1 else None
    return replace(arm, threshold=threshold, equal_difficulty_p=alike)


def _test_equal_difficulty(scores: PointScores, levels: Mapping[str, float]) -> float:
    """Return the p-value of a permutation test that the questions of a level are equally difficult;
    it permutes the draws among the questions of each level."""
    by_level = defaultdict[float, list[list[float]]](list)
    for name, level in levels.items():
        by_level[level].append([draw.score.value for draw in scores.get_successful_draws(name)])
    random, spread = np.random.default_rng(0), np.zeros(1 + RESHUFFLE_COUNT)
    for questions in by_level.values():
        values, sizes = np.concatenate(questions), np.array([len(draws) for draws in questions])
        dealt = random.permuted(np.tile(values, (RESHUFFLE_COUNT, 1)), axis=1)
        sums = np.add.reduceat(np.vstack([values, dealt]), np.cumsum(sizes) - sizes, axis=1)
        spread += (sums**2 / sizes).sum(axis=1)
    return float(np.mean(spread >= spread[0] - 1e-9))


def _list_level_points(scores: PointScores, field: str) -> list[Point]:
    """Return level, accuracy and its interval for every level of an arm."""
    levels = ValueMatrix.of({0: scores.comparable_values}, scores.clusters).split_by(
        lambda name: as_number(scores.samples[name].meta.get(field))
    )
    shares = {level: values.mean(0) for level, values in levels.items() if level is not None}
    return [
        (level, share.value, share.low, share.high)
        for level, share in sorted(shares.items(), key=lambda item: item[0])
        if share
    ]


# ---- all combinations of two parameters

MAX_HEAT_MAPS = 12  # maps in a report


def make_crossed_grids(runs: Sequence[RunScores], by: Sequence[str]) -> list[PageGrid]:
    """Return a heat map for each pair of fields in `by`, such as "size,rotation", and each arm
    whose samples have both."""
    grids = []
    for x, y in (fields for text in by if len(fields := text.split(",")) == 2):
        for scores in chain.from_iterable(run.points for run in runs):
            values = defaultdict[tuple[Level, Level], list[float]](list)
            for name, value in scores.comparable_values.items():
                meta = scores.samples[name].meta
                if x in meta and y in meta:
                    values[_parse_level(meta[x]), _parse_level(meta[y])].append(value)
            cells = []
            for levels in sorted(
                values, key=lambda pair: (_make_sort_key(pair[0]), _make_sort_key(pair[1]))
            ):
                cells.append((*levels, fmean(values[levels]), len(values[levels])))
            if len(cells) > 1:
                grids.append(PageGrid(x, y, scores.task, scores.contestant, cells))
    return grids[:MAX_HEAT_MAPS]


def make_crossed_tables(
    runs: Sequence[RunScores], by: Sequence[str]
) -> Iterator[tuple[str, TextTable]]:
    """Yield the maps of `make_crossed_grids` as tables with titles: levels of the first field as
    rows, of the second as columns."""
    for grid in make_crossed_grids(runs, by):
        cells = {(x, y): f"{percent(accuracy)}\n{n}" for x, y, accuracy, n in grid.cells}
        down, across = (
            sorted({place[side] for place in cells}, key=_make_sort_key) for side in (0, 1)
        )
        lines = [(_format_level(x), *(cells.get((x, y), "") for y in across)) for x in down]
        title = f"{grid.contestant}, {grid.task}: % by {grid.x} and {grid.y}"
        yield title, TextTable((f"{grid.x} \\ {grid.y}", *map(_format_level, across)), lines)


def _parse_level(value: object) -> Level:
    number = as_number(value)
    return str(value) if number is None else number


def _make_sort_key(level: Level) -> tuple[bool, Level]:
    return isinstance(level, str), level


def _format_level(level: Level) -> str:
    return level if isinstance(level, str) else f"{level:g}"


def _yield_thresholds_ending(scored: Table) -> Iterator[ReportTable | str]:
    """Yield the tables and lines to print at the end of a run: crossed fields, thresholds, and the
    reason if there are no thresholds."""
    for title, crossed in make_crossed_tables(scored.scores, scored.by):
        yield ReportTable(title, crossed)
    yield ReportTable("thresholds", tabulate_thresholds(scored.scores), note=THRESHOLDS_NOTE)
    for run in scored.scores:
        if along := ThresholdSettings.from_config(run.config):
            rows = (row.meta for row in run.folder.samples.values())
            if missing := describe_missing_levels(rows, along.field):
                yield f"no thresholds: {missing}"


def show_thresholds(request: AnalysisRequest) -> None:
    """Print the thresholds along a field; settings in the request override the run's entry
    `thresholds`."""
    along = request.settings.get("along")
    try:
        TypeAdapter(ThresholdsEntry).validate_python({**request.settings})
    except ValidationError as exc:
        fault = exc.errors()[0]
        place = fault["loc"][0]
        raise RunError(f"{place}: {fault['msg'].lower()}, found {fault['input']!r}") from exc
    shown = tabulate_thresholds(
        request.scored.scores, ThresholdSettings.from_config({"thresholds": request.settings})
    )
    if not shown.rows:
        samples = [
            row for scores in request.scored.scores for row in scores.folder.samples.values()
        ]
        missing = describe_missing_levels((row.meta for row in samples), along)
        raise RunError(missing or f"no arm answered a sample that has numbers in {along!r}")
    request.show(shown, "thresholds", THRESHOLDS_NOTE)


THRESHOLDS_ANALYSIS = Analysis(
    "thresholds",
    "Thresholds",
    lambda scored: tabulate_thresholds(scored.scores),
    THRESHOLDS_NOTE,
    ending=_yield_thresholds_ending,
    curves=make_curve_builder(chart_thresholds),
    settings=("along", "target", "scale", "direction"),
    ask=show_thresholds,
)
CROSSED_ANALYSIS = Analysis(
    "crossed",
    "Two fields crossed (--by A,B)",
    lambda scored: starmap(ReportTable, make_crossed_tables(scored.scores, scored.by)),
    maps=lambda scored: make_crossed_grids(scored.scores, scored.by),
)
