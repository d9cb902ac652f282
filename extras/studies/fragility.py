"""The dependence of results on the marker's style and on the codec: differences, VPBench's ratio,
and published rows for comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import isnan
from statistics import fmean
from typing import NamedTuple

import numpy as np

from looktwice.eval.analysis.analyses import Analysis, make_table_builder
from looktwice.eval.display.table import Table, cache_measure
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    attribute_columns,
    estimate_cell,
    format_p,
    number_cell,
    percent,
    table,
    text,
)
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import (
    Clusters,
    Estimate,
    Floats,
    cluster_codes,
    cluster_sums,
    percentile_interval,
    resampled_means,
)
from looktwice.eval.statistics.paired import ValueMatrix, holm

FRAGILITY_NOTE = (
    "Every style and codec is compared with the first one on the same samples, with the interval"
    " and p of a paired comparison; a style differs if p is below 0.05 after Holm's correction"
    " over the styles and codecs of the line. The intervals of R and of best minus worst"
    " are bootstrapped over the same clusters (samples that share a group or a picture) for all"
    " styles. R is the mean variance of these differences divided by the variance of the default's"
    " accuracy (VPBench, 2512.17875): at 1 or more, another marker changes the score as much as"
    " other samples would. `floor` is R of the default against another draw of itself, so `draws:"
    " 2` shows how much of R is the model's own randomness; both refer to single draws, and further"
    " draws only make them more precise. `above the floor` is R minus its floor. Best minus worst"
    " of many styles is above 0 by chance alone, and so is its interval: `identical styles` is its"
    " mean if each cluster's answers are permuted over the styles at random, and p is how often"
    " that reaches the measured value. A pair flips if the other contestant leads; `by samples"
    " alone` is the share of resamples with a flip under the default, `in all` the share over"
    " styles, codecs and resamples."
)
RESAMPLE_COUNT, PERMUTATION_COUNT, SIGNIFICANCE_LEVEL = 2000, 1000, 0.05
FLOOR_HEADER, ABOVE_HEADER, ALIKE_HEADER = "floor\nof R", "above\nthe floor", "identical\nstyles"
PublishedAccuracies = dict[str, dict[str, dict[str, float]]]
"""Accuracies in percent by task, variant and model."""


@dataclass(frozen=True)
class StyleShift:
    """The effect of a style and codec compared with the first one, on the same samples.

    `p_holm` is p after Holm's correction over all styles of the contestant on the task: if no style
    makes a difference, any of them is called significant in at most 5 % of studies.
    """

    name: str
    accuracy: float
    delta: Estimate
    p_holm: float

    @property
    def is_significant(self) -> bool:
        """True if the effect is significant."""
        return self.p_holm < SIGNIFICANCE_LEVEL


class NullSpread(NamedTuple):
    """The expected spread (best minus worst accuracy) of styles that make no difference, and the p
    value of the measured spread."""

    mean: float
    p: float


@dataclass(frozen=True, eq=False)
class Fragility:
    """The results of one contestant on one task under all styles and codecs, the default first.

    `values` are means over draws, and `mean_squares` the means of the draws' squares, (variants,
    samples). `repeat_differences` holds, for each sample, the mean squared difference between two
    draws of the default, NaN with a single draw. All intervals use the same `resample_count`
    resamples of the clusters, so they are paired.
    """

    contestant: str
    task: str
    values: ValueMatrix[str, str]
    mean_squares: Floats
    repeat_differences: Floats
    resample_count: int = RESAMPLE_COUNT

    @classmethod
    def from_draws(
        cls,
        contestant: str,
        task: str,
        draws: Mapping[str, Sequence[Sequence[float]]],
        clusters: Mapping[str, str],
    ) -> Fragility:
        """Build the results from the values of the draws by variant and sample; `clusters` maps the
        samples, in order, to their clusters."""
        means, squares = np.array(
            [[(fmean(d), np.square(d).mean()) for d in samples] for samples in draws.values()]
        ).transpose(2, 0, 1)
        codes = cluster_codes([*clusters.values()], len(clusters))
        values = ValueMatrix(means, tuple(draws), tuple(clusters), codes)
        first = next(iter(draws.values()))
        counts = np.array([*map(len, first)], np.float64)
        counts[counts < 2] = np.nan
        repeats = 2 * counts / (counts - 1) * (squares[0] - means[0] ** 2)
        return cls(contestant, task, values, squares, repeats)

    @property
    def n(self) -> int:
        """The number of samples, which is the same for all variants."""
        return len(self.values.units)

    @cached_property
    def means(self) -> Floats:
        """The accuracy of each variant, the default first."""
        return np.asarray(self.values.value.mean(axis=1))

    @cached_property
    def shifts(self) -> list[StyleShift]:
        """The effect of each variant compared with the default."""
        default, *names = self.values.arms
        deltas = [delta for name in names if (delta := self.values.compare_arms(name, default))]
        corrected = holm([delta.p for delta in deltas])
        return [*map(StyleShift, names, self.means[1:].tolist(), deltas, corrected)]

    @cached_property
    def null_spread(self) -> NullSpread:
        """The spread expected of identical styles."""
        return simulate_spreads(self.values.value, self.values.clusters)

    @property
    def spread(self) -> Estimate | None:
        """The best minus the worst accuracy."""
        drawn = np.ptp(self._resampled_means[:, : len(self.means)], axis=1)
        return self._make_estimate(float(np.ptp(self.means)), drawn)

    @property
    def worst_and_best(self) -> tuple[str, str]:
        """The worst and the best variant."""
        worst, best = self.means.argmin(), self.means.argmax()
        return self.values.arms[worst], self.values.arms[best]

    @property
    def ratio(self) -> Estimate | None:
        """VPBench's R for single draws, whatever the number of draws; None if the default is always
        right or always wrong."""
        return self._make_estimate(
            self._measured_means[0], self._compute_ratios(self._resampled_means)[0]
        )

    @property
    def floor(self) -> float | None:
        """R of the default compared with another draw of itself; None with a single draw."""
        floor = self._measured_means[1]
        return None if isnan(floor) else floor

    @property
    def above_floor(self) -> Estimate | None:
        """R minus its floor."""
        (ratio, floor), (ratios, floors) = (
            self._measured_means,
            self._compute_ratios(self._resampled_means),
        )
        return self._make_estimate(ratio - floor, ratios - floors)

    @cached_property
    def _ratio_inputs(self) -> Floats:
        """The inputs of R, (4 + 2 * variants, samples), of which `_compute_ratios` needs only the
        mean of each row over samples.

        The rows are: the values; the expected square of a draw of the default, and of its
        difference from a draw of each variant; and, for samples with two draws of the default (0
        elsewhere), the squared difference of two draws, the square and the value of one draw, and
        1.
        """
        values, squares = self.values.value, self.mean_squares
        # two draws of different variants are independent
        gaps = squares[1:] - 2 * values[1:] * values[0] + squares[0]
        again = ~np.isnan(self.repeat_differences)
        drawn_twice = [
            np.nan_to_num(self.repeat_differences),
            squares[0] * again,
            values[0] * again,
            again,
        ]
        return np.concatenate([values, squares[:1], gaps, np.stack(drawn_twice)])

    @cached_property
    def _resampled_means(self) -> Floats:
        return resample_means(self._ratio_inputs, self.values.clusters, self.resample_count)

    @cached_property
    def _measured_means(self) -> tuple[float, float]:
        ratio, floor = self._compute_ratios(self._ratio_inputs.mean(axis=1)[None])
        return float(ratio[0]), float(floor[0])

    def _compute_ratios(self, means: Floats) -> tuple[Floats, Floats]:
        """Compute VPBench's R and its floor from each row of means of `_ratio_inputs`; R is NaN if
        the default does not vary, and the floor if it has a single draw.

        R of single draws is the mean over variants of Var(delta), divided by Var(accuracy) of the
        default, row 0. Both are variances over redrawn samples, so N cancels: Var(delta) is (p10 +
        p01 - delta^2) / N, and Var(accuracy) is p (1 - p) / N. R is 0 for no change, 2 for an
        independent model of the same accuracy at p = 1/2, and 4 if all answers are reversed.
        """
        count = len(self.means)
        values, square, gaps, repeats = np.split(means, [count, count + 1, 2 * count], axis=1)
        moved = (gaps - (values[:, 1:] - values[:, :1]) ** 2).mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            again, again_square, again_value = (repeats[:, :3] / repeats[:, 3:]).T
            spreads = square[:, 0] - values[:, 0] ** 2, again_square - again_value**2
            ratio, floor = (
                np.where(spread > 1e-12, part / spread, np.nan)
                for part, spread in zip((moved, again), spreads, strict=True)
            )
        return ratio, floor

    def _make_estimate(self, value: float, draws: Floats) -> Estimate | None:
        if isnan(value):
            return None
        low, high, clusters = value, value, len(np.unique(self.values.clusters))
        if clusters > 1:
            low, high = percentile_interval(draws[~np.isnan(draws)], clusters)
        return Estimate(value, min(low, value), max(high, value), self.n, clusters)


def simulate_spreads(values: Floats, clusters: Clusters | None = None) -> NullSpread:
    """Simulate the best minus the worst accuracy of `values` (variants, samples) under the null
    hypothesis that variants do not differ.

    Under the null hypothesis a cluster's answers are exchangeable between the variants: they are
    permuted at random in each cluster, 1,000 times, with a fixed seed. p is the share of these
    spreads that reach the measured one.
    """
    sums, _ = cluster_sums(values.T, clusters)
    moved = sums[np.ptp(sums, axis=1) > 1e-9]
    random, fixed = np.random.default_rng(0), sums.sum(axis=0)
    spreads = np.array(
        [np.ptp(random.permuted(moved, axis=1).sum(axis=0)) for _ in range(PERMUTATION_COUNT)]
    )
    reached = np.count_nonzero(spreads >= np.ptp(fixed) - 1e-9)
    return NullSpread(
        float(spreads.mean()) / values.shape[1], (1 + reached) / (1 + PERMUTATION_COUNT)
    )


def resample_means(rows: Floats, clusters: Clusters, resamples: int) -> Floats:
    """Return the mean of each row of `rows` (rows, samples) over resampled clusters, (resamples,
    rows)."""
    sums, sizes = cluster_sums(rows.T, clusters)
    return resampled_means(sums, sizes, resamples=resamples)


@cache_measure
def measure_fragilities(run: RunScores) -> list[Fragility]:
    """Return the fragility of each contestant that has the marker named in `fragility:`, on every
    task: its styles and codecs in order, on the samples that all arms have."""
    wanted = run.config.get("fragility")
    if not isinstance(wanted, Mapping):
        return []
    by_line = defaultdict[tuple[str, str], dict[str, PointScores]](dict)
    for scores in run.points:
        stages = scores.point.spec.get("stages") or {}
        mark, encode = stages.get(str(wanted.get("slot", "mark"))) or {}, stages.get("encode") or {}
        if "style" in mark:
            codec = encode.get("codec", "png")
            lossy = "" if codec in ("png", "keep") else f", {codec}{encode.get('quality', '')}"
            mine = by_line[scores.point.contestant, scores.point.task]
            mine.setdefault(f"{mark['style']}{lossy}", scores)
    lines = []
    for place, arms in by_line.items():
        default = next(iter(arms.values()))
        shared = set(default.comparable_values).intersection(
            *(arm.comparable_values for arm in arms.values())
        )
        clusters = {
            name: default.clusters[name] for name in default.comparable_values if name in shared
        }
        draws = {
            style: [
                [draw.score.value for draw in arm.get_successful_draws(name)] for name in clusters
            ]
            for style, arm in arms.items()
        }
        if len(arms) > 1 and clusters:
            lines.append(Fragility.from_draws(*place, draws, clusters))
    return lines


def _format_ratio_cell(line: Fragility) -> str:
    ratio = line.ratio
    return number_cell(ratio) if ratio else f"none, default\nalways {percent(line.means[0])}"


FRAGILITY_COLUMNS: Columns[Fragility] = (
    *attribute_columns("contestant", "task"),
    Column("n", "n"),
    Column("default %", lambda line: line.means[0], percent),
    Column(
        "differ from\nthe default",
        lambda line: f"{sum(s.is_significant for s in line.shifts)} of {len(line.shifts)}",
    ),
    Column("R", _format_ratio_cell),
    Column(FLOOR_HEADER, "floor", "{:.2f}"),
    Column(ABOVE_HEADER, "above_floor", number_cell),
    Column("best minus\nworst", "spread", estimate_cell),
    Column(
        ALIKE_HEADER,
        lambda line: f"{percent(line.null_spread.mean)}\np {format_p(line.null_spread.p)}",
    ),
    Column("worst", lambda line: line.worst_and_best[0]),
    Column("best", lambda line: line.worst_and_best[1]),
)


PUBLISHED_HEADER = ("contestant", "task", "default %", "best minus\nworst", "worst", "best")


def make_fragility_table(scored: Table, whole: bool = True) -> TextTable:
    """Build a table with a row per contestant and task: the default, significant effects, R, and
    best minus worst; then published rows.

    If not `whole`, as on a terminal, the table has only the run's own rows and no columns about
    chance.
    """
    own = table(
        FRAGILITY_COLUMNS, [line for run in scored.scores for line in measure_fragilities(run)]
    )
    if not whole:
        return own.without(FLOOR_HEADER, ABOVE_HEADER, ALIKE_HEADER)
    spreads = [
        line for run in scored.scores for line in _list_published_spreads(read_published(run))
    ]
    return own.append(TextTable(PUBLISHED_HEADER, spreads)).without_empty() if own.rows else own


class StyleLine(NamedTuple):
    """The effect of a style and codec on a contestant and task, as a table row."""

    fragility: Fragility
    shift: StyleShift


STYLE_COLUMNS: Columns[StyleLine] = (
    *attribute_columns("contestant", "task", of="fragility"),
    Column("style", "shift.name", text),
    Column("accuracy %", "shift.accuracy", percent),
    Column("difference", "shift.delta", estimate_cell),
    Column("wrong\nto right", "shift.delta.better"),
    Column("right\nto wrong", "shift.delta.worse"),
    Column("p", "shift.delta.p", format_p),
    Column("p\n(Holm)", "shift.p_holm", format_p),
    Column("differs", lambda line: "yes" if line.shift.is_significant else ""),
)


def find_style_shifts(run: RunScores) -> list[StyleLine]:
    """Return the effects of each style and codec on each contestant and task."""
    return [StyleLine(line, shift) for line in measure_fragilities(run) for shift in line.shifts]


def read_published(run: RunScores) -> PublishedAccuracies:
    """Return the accuracies in the rows of `published:` whose names have the form "MODEL [STYLE]",
    by task, style and model."""
    published: PublishedAccuracies = defaultdict(lambda: defaultdict(dict))
    for name, row in (run.config.get("published") or {}).items():
        model, bracket, style = str(name).partition(" [")
        for task, value in (row.get("accuracy") or {}).items() if bracket else ():
            published[task][style.removesuffix("]")][model] = float(value)
    return published


def _list_published_spreads(published: PublishedAccuracies) -> Iterator[Sequence[str]]:
    """Yield a row under PUBLISHED_HEADER per task and model, followed by each task's mean and
    largest spread."""
    for task, styles in published.items():
        models = dict.fromkeys(model for accuracies in styles.values() for model in accuracies)
        spreads = list[float]()
        for model in models if not task.endswith(" rank") else ():
            mine = {style: values[model] for style, values in styles.items() if model in values}
            worst, best = min(mine, key=mine.__getitem__), max(mine, key=mine.__getitem__)
            default = f"{mine['default']:.1f}" if "default" in mine else ""
            spreads.append(mine[best] - mine[worst])
            yield f"{model}, published", task, default, f"{spreads[-1]:.1f}", worst, best
        if len(spreads) > 1:
            mean = f"{fmean(spreads):.1f}\nlargest {max(spreads):.1f}"
            yield f"{len(spreads)} models, published", task, "", mean, "", ""


FRAGILITY_ANALYSIS = Analysis(
    "fragility",
    "Fragility under marker styles",
    make_fragility_table,
    FRAGILITY_NOTE,
    needs="a study with `fragility:`",
    ending=partial(make_fragility_table, whole=False),
)
EVERY_STYLE_ANALYSIS = Analysis(
    "styles",
    "Every style and codec",
    make_table_builder(STYLE_COLUMNS, find_style_shifts),
    needs="a study with `fragility:`",
)
