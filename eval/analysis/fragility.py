"""How far results hang on the look of a marker and on the codec: paired bootstrap, VPBench's ratio, ranks that flip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.scoring.verdict import PointScores, RunScores, Verdict
from looktwice.eval.statistics.bootstrap import cluster_codes, cluster_sums, percentile_interval, resampled_means
from looktwice.eval.statistics.paired import PairedComparison, compare_paired

RESAMPLES = 2000
Floats = NDArray[np.float64]


class Bounded(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class StyleShift:
    """What a style under a codec changes against the first one, on the same samples."""

    name: str
    accuracy: float
    delta: PairedComparison

    @property
    def significant(self) -> bool:
        """Whether the interval of the difference leaves 0 out (VPBench, section 5)."""
        return not self.delta.low <= 0 <= self.delta.high


@dataclass(frozen=True)
class Fragility:
    """One contestant on one task under all styles and codecs; `accuracy` is that of the first, the default.

    `ratio` is VPBench's R, None where the default is right or wrong throughout; `floor` is R of the default against a
    second draw of itself, None with one draw. `spread` is the best minus the worst accuracy.
    """

    contestant: str
    task: str
    n: int
    accuracy: float
    shifts: tuple[StyleShift, ...]
    ratio: Bounded | None
    floor: float | None
    spread: Bounded
    best: str
    worst: str


@dataclass(frozen=True)
class Variants:
    """The values of one contestant's samples: (variants, samples), the default's first; `names` are the variants.

    `clusters` names what each sample shares with others, its group or pictures; without it each is its own.
    """

    contestant: str
    task: str
    names: tuple[str, ...]
    samples: tuple[str, ...]
    values: Floats
    floor: float | None = None
    clusters: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Flip:
    """Two contestants of which `first` leads under the default, by `lead`: how often the other one leads.

    `styles` counts the variants that turn them round on all samples. `chance` is the share of resamples that do under
    the default alone, `flipped` that over all variants and resamples; a tie is no flip.
    """

    task: str
    first: str
    second: str
    lead: float
    styles: int
    of: int
    chance: float
    flipped: float


def variance_ratio(values: Floats) -> float | None:
    """VPBench's R: the mean over variants of Var(delta), over Var(accuracy) of the default, which is row 0.

    With redrawn samples, N cancels: Var(delta) is that of the samples' differences, (p10 + p01 - delta^2) / N, and
    Var(accuracy) is p (1 - p) / N. R is 0 for no change, 2 for an independent model of the same accuracy at p = 1/2, 4
    for all answers turned round. None where the default does not vary.
    """
    base = float(values[0].var())
    return float((values[1:] - values[0]).var(axis=1).mean()) / base if base > 1e-12 else None


def measure_fragility(found: Variants, resamples: int = RESAMPLES) -> Fragility:
    """Differences, R and spread with intervals; one draw of the clusters serves all variants, so that all is paired."""
    values, base = found.values, found.values[0]
    means, ratio, parts = (
        values.mean(axis=1),
        variance_ratio(values),
        (values, (values[1:] - base) ** 2, base[None] ** 2),
    )
    drawn, count = _draw(np.concatenate(parts), found.clusters, resamples)
    accuracies, squares, square = np.split(drawn, [len(values), 2 * len(values) - 1], axis=1)
    first = accuracies[:, :1]
    gaps, spread = squares - (accuracies[:, 1:] - first) ** 2, (square - first**2)[:, 0]
    kept = spread > 1e-12  # the resamples in which the default varies
    shifts = tuple(
        StyleShift(name, float(mean), compare_paired(row, base, found.clusters))
        for name, mean, row in zip(found.names[1:], means[1:], values[1:], strict=True)
    )
    return Fragility(
        found.contestant, found.task, values.shape[1], float(means[0]), shifts,
        None if ratio is None else _bounded(ratio, gaps[kept].mean(axis=1) / spread[kept], count), found.floor,
        _bounded(float(np.ptp(means)), np.ptp(accuracies, axis=1), count),
        found.names[int(means.argmax())], found.names[int(means.argmin())],
    )  # fmt: skip


def rank_flips(found: Sequence[Variants], resamples: int = RESAMPLES) -> Iterator[Flip]:
    """Every two contestants of a task that are not tied under the default, on the samples and variants of both."""
    for one, other in combinations(found, 2):
        samples = [name for name in one.samples if name in set(other.samples)]
        names = [name for name in one.names if name in other.names]
        if one.task != other.task or not samples or not names or one.names[0] != other.names[0]:
            continue
        gaps = _pick(one, names, samples) - _pick(other, names, samples)
        lead = float(gaps[0].mean())
        if abs(lead) < 1e-9:
            continue
        clusters = one.clusters and [one.clusters[one.samples.index(name)] for name in samples]
        turned = _draw(gaps, clusters, resamples)[0] * np.sign(lead) < -1e-9
        pair = (one, other) if lead > 0 else (other, one)
        styles = int((gaps.mean(axis=1) * np.sign(lead) < -1e-9).sum())
        yield Flip(
            one.task, pair[0].contestant, pair[1].contestant, abs(lead), styles, len(names),
            float(turned[:, 0].mean()), float(turned.mean()),
        )  # fmt: skip


def find_variants(run: RunScores) -> list[Variants]:
    """The contestants of a run with `fragility:` that have its marker, on every task, styles and codecs in order."""
    config = run.folder.facts.get("config") or {}
    wanted = config.get("fragility")
    if not isinstance(wanted, Mapping):
        return []
    arms: dict[tuple[str, str], dict[str, PointScores]] = defaultdict(dict)
    for scores in run.points:
        if name := _variant_name(scores.point.spec.get("stages") or {}, str(wanted.get("slot", "mark"))):
            arms[scores.point.contestant, scores.point.task].setdefault(name, scores)
    return [made for (who, task), each in arms.items() if (made := _collect(who, task, each))]


def _variant_name(stages: Mapping[str, Any], slot: str) -> str:
    """Such as "radius 3", and "radius 3, jpeg80" where the codec is not lossless; empty without a style."""
    mark, encode = stages.get(slot) or {}, stages.get("encode") or {}
    codec = encode.get("codec", "png")
    said = "" if codec in ("png", "keep") else f", {codec}{encode.get('quality', '')}"
    return f"{mark['style']}{said}" if "style" in mark else ""


def _collect(who: str, task: str, arms: Mapping[str, PointScores]) -> Variants | None:
    """The samples that every arm has; None where there are none, or one arm alone."""
    values = {name: scores.comparable for name, scores in arms.items()}
    first = next(iter(values.values()))
    samples = tuple(name for name in first if all(name in each for each in values.values()))
    if len(values) < 2 or not samples:
        return None
    table, default = (
        np.array([[each[name] for name in samples] for each in values.values()], float),
        next(iter(arms.values())),
    )
    clusters = tuple(default.clusters[name] for name in samples)
    return Variants(who, task, tuple(values), samples, table, _floor(default, samples), clusters)


def _floor(scores: PointScores, samples: Sequence[str]) -> float | None:
    """R between the first two draws of the default that did not fail; None with one draw."""
    drawn = [[e.score.value for e in scores.asked(name) if e.verdict is not Verdict.FAILED] for name in samples]
    pairs = np.array([pair[:2] for pair in drawn if len(pair) > 1], float)
    return variance_ratio(pairs.T) if len(pairs) else None


def _pick(found: Variants, names: Sequence[str], samples: Sequence[str]) -> Floats:
    rows, columns = [found.names.index(name) for name in names], [found.samples.index(name) for name in samples]
    return found.values[np.ix_(rows, columns)]


def _draw(rows: Floats, clusters: Sequence[str] | None, resamples: int) -> tuple[Floats, int]:
    """The means of rows of numbers by sample over resampled clusters, (resamples, rows), and how many clusters."""
    sums, sizes = cluster_sums(rows.T, cluster_codes(clusters, rows.shape[1]))
    return resampled_means(sums, sizes, resamples=resamples), len(sizes)


def _bounded(value: float, drawn: Floats, clusters: int) -> Bounded:
    low, high = percentile_interval(drawn, clusters) if clusters > 1 else (value, value)
    return Bounded(value, min(low, value), max(high, value))
