"""A test of how well a psychometric function fits its answers, and a confidence interval for the
threshold that assumes no particular function."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from looktwice.eval.statistics.intervals import Codes, Floats
from looktwice.extras.adaptive.functions import Threshold

MIN_LEVEL_ANSWERS = 10  # neighbouring levels with fewer answers are merged
SIMULATION_COUNT = 400  # data sets that give the distribution of the deviance
# fewer than 5 % of these data sets reach this likelihood-ratio statistic, for any levels
POOR_FIT_RATIO = 15.0


class FitCheck(NamedTuple):
    """The p-value of a fit, and a confidence interval for the threshold that also holds if the
    questions of a level differ in difficulty.

    `p` is the share of data sets simulated from the fitted function that deviate at least as much
    from their own best fit. It is None if fewer than three levels have MIN_LEVEL_ANSWERS or more.
    """

    p: float | None
    low: float
    high: float


def check_fit(fitted: Threshold) -> FitCheck:
    """Test how well the fitted function of a threshold describes the answers.

    The deviance of the best function is compared with the deviances of SIMULATION_COUNT data sets
    drawn from it, each from its own best fit (Wichmann and Hill 2001). Neighbouring levels with few
    answers are merged. The interval assumes only that accuracy rises, or falls, along the levels;
    see `_find_crossing_gaps`. Answers of a staircase are simulated at the levels that were asked,
    as if these had been fixed.
    """
    model = fitted.model
    scale = model._convert_to_scale(np.array(model.levels))
    scale, answer_counts, correct_counts = _merge_levels(
        scale, np.asarray(fitted.answer_counts, float), np.asarray(fitted.correct_counts)
    )
    random, falling = np.random.default_rng(0), model.direction == "falling"
    order = slice(None, None, -1 if falling else 1)
    cuts = _find_crossing_gaps(
        answer_counts[order], correct_counts[order], model.target, fitted.dispersion, random
    )
    edges = np.array([model.thresholds[0], *scale, model.thresholds[-1]])
    ends = sorted((edges[order][cuts[0]], edges[order][cuts[-1] + 1]))
    low, high = (float(np.exp(end) if model.is_log else end) for end in ends)
    if len(scale) < 3:
        return FitCheck(None, low, high)
    merged = replace(model, levels=tuple(map(float, np.exp(scale) if model.is_log else scale)))
    drawn = random.binomial(
        np.round(answer_counts).astype(int),
        merged.find_best_accuracies(answer_counts, correct_counts),
        (SIMULATION_COUNT, len(answer_counts)),
    )
    deviance = merged.compute_deviances(answer_counts, correct_counts[None])[0] / fitted.dispersion
    reached = merged.compute_deviances(answer_counts, drawn.astype(float)) >= deviance - 1e-9
    return FitCheck(float((1 + reached.sum()) / (1 + SIMULATION_COUNT)), low, high)


def _find_crossing_gaps(
    answer_counts: Floats,
    correct_counts: Floats,
    target: float,
    dispersion: float,
    random: np.random.Generator,
) -> Codes:
    """Return the gaps between levels in which rising accuracy may pass the target; gap k lies
    between levels k - 1 and k, counted from 0.

    For each gap, the likelihood-ratio statistic compares the best rising accuracy with the best one
    that is at most the target before the gap and at least the target after it. Its p-value comes
    from SIMULATION_COUNT data sets simulated from this second one; gaps with p above 5 % are
    returned. The gap with the smallest statistic is always among them.
    """
    sizes, gaps = np.round(answer_counts).astype(int), range(len(answer_counts) + 1)
    ratios = (
        np.array(
            [
                _compute_likelihood_ratios(answer_counts, correct_counts[None], target, gap)[0]
                for gap in gaps
            ]
        )
        / dispersion
    )
    kept = ratios == ratios.min()
    for gap in np.flatnonzero(~kept & (ratios < POOR_FIT_RATIO)):
        fit = _fit_rising_accuracies(answer_counts, correct_counts[None], target, int(gap))[0]
        drawn = random.binomial(
            sizes, np.clip(fit, 0, 1), (SIMULATION_COUNT, len(answer_counts))
        ).astype(float)
        reached = (
            _compute_likelihood_ratios(answer_counts, drawn, target, int(gap)) >= ratios[gap] - 1e-9
        )
        kept[gap] = (1 + reached.sum()) / (1 + SIMULATION_COUNT) > 0.05
    return np.flatnonzero(kept)


def _compute_likelihood_ratios(
    answer_counts: Floats, correct_counts: Floats, target: float, gap: int
) -> Floats:
    """Return the likelihood-ratio statistic of `_find_crossing_gaps` for one gap, for each of the
    data sets `correct_counts` (sets, levels)."""
    from scipy.special import xlogy

    free, bound = (
        _fit_rising_accuracies(answer_counts, correct_counts, target, None),
        _fit_rising_accuracies(answer_counts, correct_counts, target, gap),
    )
    wrong = answer_counts - correct_counts
    logs = [
        (xlogy(correct_counts, fit) + xlogy(wrong, 1 - fit)).sum(axis=1) for fit in (free, bound)
    ]
    return np.asarray(2 * (logs[0] - logs[1]))


def _fit_rising_accuracies(
    answer_counts: Floats, correct_counts: Floats, target: float, gap: int | None
) -> Floats:
    """Return the most likely rising accuracies of each data set, (sets, levels); with a `gap`, the
    most likely ones that pass the target in that gap.

    This is isotonic regression: the maximum over all first levels of the minimum over all last
    levels of the mean between them.
    """
    if gap is not None:
        before = _fit_rising_accuracies(answer_counts[:gap], correct_counts[:, :gap], target, None)
        after = _fit_rising_accuracies(answer_counts[gap:], correct_counts[:, gap:], target, None)
        return np.hstack([np.minimum(before, target), np.maximum(after, target)])
    count = len(answer_counts)
    if count == 0:
        return correct_counts
    total, answers = np.cumsum(correct_counts, axis=1), np.cumsum(answer_counts)
    first = np.arange(count)
    sums = (
        total[:, None, :] - (total - correct_counts)[:, :, None]
    )  # (sets, first level, last level)
    sizes = answers[None, :] - (answers - answer_counts)[:, None]
    means = np.where(first[:, None] <= first, sums / np.where(sizes > 0, sizes, 1), np.inf)
    # minimum over the last levels, from each level on
    least = np.minimum.accumulate(means[:, :, ::-1], axis=2)[:, :, ::-1]
    least = np.where(first[:, None] <= first, least, -np.inf)
    return np.asarray(least.max(axis=1))


def _merge_levels(
    scale: Floats, answer_counts: Floats, correct_counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Merge neighbouring levels until each has MIN_LEVEL_ANSWERS; return mean levels, answers and
    correct answers."""
    before = np.cumsum(answer_counts) - answer_counts
    least = max(MIN_LEVEL_ANSWERS, answer_counts.sum() / 40)
    groups, start = np.zeros(len(answer_counts), np.int64), 0.0
    for place in range(1, len(answer_counts)):
        full = before[place] - start >= least and answer_counts[place:].sum() >= least
        groups[place] = groups[place - 1] + full
        start = before[place] if full else start
    levels, answers, hits = (
        np.bincount(groups, part).astype(float)
        for part in (scale * answer_counts, answer_counts, correct_counts)
    )
    return levels / answers, answers, hits
