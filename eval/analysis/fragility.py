"""How far results hang on the look of a marker and on the codec: paired bootstrap, VPBench's ratio,
ranks that flip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.display.table import once
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import (
    Estimate,
    cluster_codes,
    cluster_sums,
    percentile_interval,
    resampled_means,
)
from looktwice.eval.statistics.paired import compare_paired, holm

RESAMPLES, PERMUTATIONS, LEVEL = 2000, 1000, 0.05
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StyleShift:
    """What a style under a codec changes against the first one, on the same samples.

    `p_holm` is the difference's p after Holm's correction over all styles of the contestant on the
    task.
    """

    name: str
    accuracy: float
    delta: Estimate
    p_holm: float

    @property
    def significant(self) -> bool:
        """Whether the style differs; where none does, any one is called different in 5 % of studies
        at most."""
        return self.p_holm < LEVEL


class Chance(NamedTuple):
    """The best minus the worst accuracy of styles that make no difference: its mean, and p of what
    was measured."""

    mean: float
    p: float


@dataclass(frozen=True)
class Fragility:
    """One contestant on one task under all styles and codecs; `accuracy` is that of the first, the
    default.

    `ratio` is VPBench's R, None where the default is right or wrong throughout; `floor` is R of the
    default against another draw of itself, None with one draw, and `above` is R minus its floor.
    Both are those of single draws, however many there are. `spread` is the best minus the worst
    accuracy, `chance` that of styles that are all alike.
    """

    contestant: str
    task: str
    n: int
    accuracy: float
    shifts: tuple[StyleShift, ...]
    ratio: Estimate | None
    floor: float | None
    above: Estimate | None
    spread: Estimate
    chance: Chance
    best: str
    worst: str


@dataclass(frozen=True)
class Variants:
    """The values of one contestant's samples: (variants, samples), the default's first; `names` are
    the variants.

    `values` are means over draws and `squares` the means of the draws' squares.
    `repeats` is by sample the mean squared difference between two draws of the default, NaN where
    there is one. `clusters` names what each sample shares with others, its group or pictures;
    without it each is its own.
    """

    contestant: str
    task: str
    names: tuple[str, ...]
    samples: tuple[str, ...]
    values: Floats
    squares: Floats
    repeats: Floats
    clusters: tuple[str, ...] | None = None

    @classmethod
    def of_draws(
        cls,
        contestant: str,
        task: str,
        draws: Mapping[str, Sequence[Sequence[float]]],
        clusters: Mapping[str, str],
    ) -> Variants:
        """From the values of the draws by variant and sample; `clusters` names the samples, in
        order, and theirs."""
        table = [[np.asarray(sample, float) for sample in samples] for samples in draws.values()]
        values = np.array([[sample.mean() for sample in samples] for samples in table])
        squares = np.array([[np.square(sample).mean() for sample in samples] for samples in table])
        counts = np.array([len(sample) if len(sample) > 1 else np.nan for sample in table[0]])
        repeats = 2 * counts / (counts - 1) * (squares[0] - values[0] ** 2)
        return cls(
            contestant,
            task,
            tuple(draws),
            tuple(clusters),
            values,
            squares,
            repeats,
            tuple(clusters.values()),
        )

    def pick(self, names: Sequence[str], samples: Sequence[str]) -> Floats:
        """The values of some variants on some samples."""
        rows = [self.names.index(name) for name in names]
        return self.values[np.ix_(rows, [self.samples.index(name) for name in samples])]


@dataclass(frozen=True)
class Flip:
    """Two contestants of which `first` leads under the default, by `lead`: how often the other one
    leads.

    `styles` counts the variants that turn them round on all samples. `chance` is the share of
    resamples that do under the default alone, `flipped` that over all variants and resamples; a tie
    is no flip.
    """

    task: str
    first: str
    second: str
    lead: float
    styles: int
    of: int
    chance: float
    flipped: float


class _Ratios(NamedTuple):
    """By resample: VPBench's R and its floor, NaN where the default does not vary or has one draw.

    R of single draws is the mean over variants of Var(delta), over Var(accuracy) of the default,
    row 0. With redrawn samples, N cancels: Var(delta) is that of the samples' differences, (p10 +
    p01 - delta^2) / N, and Var(accuracy) is p (1 - p) / N. R is 0 for no change, 2 for an
    independent model of the same accuracy at p = 1/2, 4 for all answers turned round.
    """

    ratio: Floats
    floor: Floats


def _columns(variants: Variants) -> Floats:
    """What R is computed of, (4 + 2 variants, samples); a mean over samples of each row is all that
    `_ratios` needs.

    The rows are the values; the expected square of a draw of the default, and of its difference to
    a draw of each variant; and the last four of the samples with two draws of the default, 0
    elsewhere: their squared difference, the square and the value of one, and 1.
    """
    values, squares = variants.values, variants.squares
    # two draws of different variants are independent
    gaps = squares[1:] - 2 * values[1:] * values[0] + squares[0]
    again = ~np.isnan(variants.repeats)
    drawn_twice = [np.nan_to_num(variants.repeats), squares[0] * again, values[0] * again, again]
    return np.concatenate([values, squares[:1], gaps, np.stack(drawn_twice)])


def _ratios(means: Floats, variants: int) -> _Ratios:
    """R and its floor of each row of means of the columns: mean squares less squared means."""
    values, square, gaps, repeats = np.split(means, [variants, variants + 1, 2 * variants], axis=1)
    moved = (gaps - (values[:, 1:] - values[:, :1]) ** 2).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        again, again_square, again_value = (repeats[:, :3] / repeats[:, 3:]).T
        return _Ratios(
            _over(moved, square[:, 0] - values[:, 0] ** 2),
            _over(again, again_square - again_value**2),
        )


def _over(moved: Floats, spread: Floats) -> Floats:
    return np.where(spread > 1e-12, moved / spread, np.nan)


def measure_fragility(variants: Variants, resamples: int = RESAMPLES) -> Fragility:
    """Differences, R and spread with intervals; one draw of the clusters serves all variants, so
    that all is paired."""
    values, columns, count = variants.values, _columns(variants), len(variants.values)
    means, measured = values.mean(axis=1), _ratios(columns.mean(axis=1)[None], count)
    drawn, clusters = _draw(columns, variants.clusters, resamples)
    redrawn = _ratios(drawn, count)

    def estimate(value: float, draws: Floats) -> Estimate:
        low = high = value
        if clusters > 1:
            low, high = percentile_interval(draws[~np.isnan(draws)], clusters)
        return Estimate(value, min(low, value), max(high, value), values.shape[1], clusters)

    ratio, floor = (float(number[0]) for number in measured)
    above = ratio - floor
    deltas = [compare_paired(row, values[0], variants.clusters) for row in values[1:]]
    corrected = holm([delta.p for delta in deltas])
    return Fragility(
        contestant=variants.contestant,
        task=variants.task,
        n=values.shape[1],
        accuracy=float(means[0]),
        shifts=tuple(map(StyleShift, variants.names[1:], means[1:].tolist(), deltas, corrected)),
        ratio=None if isnan(ratio) else estimate(ratio, redrawn.ratio),
        floor=None if isnan(floor) else floor,
        above=None if isnan(above) else estimate(above, redrawn.ratio - redrawn.floor),
        spread=estimate(float(np.ptp(means)), np.ptp(drawn[:, :count], axis=1)),
        chance=spread_by_chance(values, variants.clusters),
        best=variants.names[int(means.argmax())],
        worst=variants.names[int(means.argmin())],
    )


def spread_by_chance(values: Floats, clusters: Sequence[str] | None = None) -> Chance:
    """The best minus the worst of (variants, samples) if variants make no difference.

    Then a cluster's answers could as well have come under the variants in any other order: 1,000
    times each cluster takes one at random, always the same. The p is the share of these spreads
    that reach the measured one.
    """
    sums, _ = cluster_sums(values.T, cluster_codes(clusters, values.shape[1]))
    moved = sums[np.ptp(sums, axis=1) > 1e-9]
    random, fixed = np.random.default_rng(0), sums.sum(axis=0)
    spreads = np.array(
        [np.ptp(random.permuted(moved, axis=1).sum(axis=0)) for _ in range(PERMUTATIONS)]
    )
    reached = np.count_nonzero(spreads >= np.ptp(fixed) - 1e-9)
    return Chance(float(spreads.mean()) / values.shape[1], (1 + reached) / (1 + PERMUTATIONS))


def rank_flips(contestants: Sequence[Variants], resamples: int = RESAMPLES) -> Iterator[Flip]:
    """Every two contestants of a task that are not tied under the default, on the samples and
    variants of both."""
    for leader, rival in combinations(contestants, 2):
        samples = [name for name in leader.samples if name in set(rival.samples)]
        names = [name for name in leader.names if name in rival.names]
        if (
            leader.task != rival.task
            or not samples
            or not names
            or leader.names[0] != rival.names[0]
        ):
            continue
        gaps = leader.pick(names, samples) - rival.pick(names, samples)
        lead = float(gaps[0].mean())
        if abs(lead) < 1e-9:
            continue
        clusters = leader.clusters and [
            leader.clusters[leader.samples.index(name)] for name in samples
        ]
        turned = _draw(gaps, clusters, resamples)[0] * np.sign(lead) < -1e-9
        first, second = (leader, rival) if lead > 0 else (rival, leader)
        yield Flip(
            task=leader.task,
            first=first.contestant,
            second=second.contestant,
            lead=abs(lead),
            styles=int((gaps.mean(axis=1) * np.sign(lead) < -1e-9).sum()),
            of=len(names),
            chance=float(turned[:, 0].mean()),
            flipped=float(turned.mean()),
        )


@once
def find_variants(run: RunScores) -> list[Variants]:
    """The contestants of a run with `fragility:` that have its marker, on every task, styles and
    codecs in order."""
    wanted = run.config.get("fragility")
    if not isinstance(wanted, Mapping):
        return []
    arms: dict[tuple[str, str], dict[str, PointScores]] = defaultdict(dict)
    for scores in run.points:
        stages = scores.point.spec.get("stages") or {}
        mark, encode = stages.get(str(wanted.get("slot", "mark"))) or {}, stages.get("encode") or {}
        if "style" in mark:
            codec = encode.get("codec", "png")
            lossy = "" if codec in ("png", "keep") else f", {codec}{encode.get('quality', '')}"
            mine = arms[scores.point.contestant, scores.point.task]
            mine.setdefault(f"{mark['style']}{lossy}", scores)
    collected = (_collect(who, task, variants) for (who, task), variants in arms.items())
    return [variants for variants in collected if variants is not None]


@once
def fragilities(run: RunScores) -> list[Fragility]:
    """The fragility of every contestant of a run on every task."""
    return list(map(measure_fragility, find_variants(run)))


def _collect(who: str, task: str, arms: Mapping[str, PointScores]) -> Variants | None:
    """The samples that every arm has; None where there are none, or one arm alone."""
    default = next(iter(arms.values()))
    shared = set.intersection(*(set(arm.comparable) for arm in arms.values()))
    samples = [name for name in default.comparable if name in shared]
    if len(arms) < 2 or not samples:
        return None
    draws = {
        name: [[draw.score.value for draw in arm.not_failed(sample)] for sample in samples]
        for name, arm in arms.items()
    }
    return Variants.of_draws(who, task, draws, {name: default.clusters[name] for name in samples})


def _draw(rows: Floats, clusters: Sequence[str] | None, resamples: int) -> tuple[Floats, int]:
    """The means of rows of numbers by sample over resampled clusters, (resamples, rows), and how
    many clusters."""
    sums, sizes = cluster_sums(rows.T, cluster_codes(clusters, rows.shape[1]))
    return resampled_means(sums, sizes, resamples=resamples), len(sizes)
