"""Confidence intervals of average precision, by a bootstrap of whole images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.statistics.intervals import Estimate, Z, cluster_codes, student_quantile, wilson
from looktwice.extras.grounding.mean_ap import MatchedScenes, Scene

MAX_RESAMPLES, MIN_RESAMPLES = 400, 100
"""The maximum and minimum number of resamples."""
MAX_BOX_SETS = 20_000_000
"""The maximum number of box sets (category, area range, image) evaluated in all resamples together;
with many images, there are fewer resamples."""


def estimate_precision(
    scenes: Sequence[Scene], clusters: Sequence[Hashable]
) -> dict[str, Estimate]:
    """Return COCO's figures over scenes with their 95 % intervals; empty if there is no true box.

    `clusters` names the cluster of each scene: images of one sample, or samples of one picture.
    Whole clusters are drawn with replacement, as many as there are, and the package computes each
    figure of every draw from boxes that it matched once. Like the interval of a share, each is a
    Wilson interval with an effective n, here from the variance of the draws (the number of clusters
    if all draws agree), with Student's quantile for few clusters. A figure of few images is biased
    upwards, and more so in a draw, which has fewer different images: the interval is shifted by
    this bias. Draws without a true box that enters a figure are left out of its interval. With a
    single cluster, the interval is 0 to 1.
    """
    matched = MatchedScenes.from_scenes(scenes)
    if matched is None:
        return {}
    codes = cluster_codes(clusters, len(scenes))
    count = int(codes.max()) + 1
    drawn = defaultdict[str, list[float]](list)
    for draw in _draw_figures(matched, codes) if count > 1 else ():
        for name, value in draw.items():
            drawn[name].append(value)
    estimates = {}
    for name, value in matched.summarize().items():
        low, high = find_limits(value, drawn[name], count) if drawn[name] else (0.0, 1.0)
        estimates[name] = Estimate(value, low, high, len(scenes), count)
    return estimates


def _draw_figures(matched: MatchedScenes, codes: NDArray[np.int64]) -> Iterator[dict[str, float]]:
    """Yield the figures of each resample; those of equal resamples are computed once."""
    random, count = np.random.default_rng(0), int(codes.max()) + 1
    known = dict[bytes, dict[str, float]]()
    for _ in range(min(MAX_RESAMPLES, max(MIN_RESAMPLES, MAX_BOX_SETS // matched.matches.size))):
        times = np.bincount(random.integers(0, count, count), minlength=count)
        key = times.tobytes()
        if key not in known:
            known[key] = matched.summarize(np.repeat(np.arange(len(codes)), times[codes]))
        yield known[key]


def find_limits(value: float, drawn: Sequence[float], clusters: int) -> tuple[float, float]:
    """Return the limits of a figure's interval, which lies within 0..1 and includes the figure."""
    bias = float(np.mean(drawn)) - value
    wider = clusters / (clusters - 1) * (student_quantile(clusters - 1) / Z) ** 2
    variance = wider * float(np.var(drawn))
    n = value * (1 - value) / variance if variance > 1e-24 else clusters
    low, high = (end - bias for end in wilson(value * n, n))
    return max(0.0, min(low, value)), min(1.0, max(high, value))
