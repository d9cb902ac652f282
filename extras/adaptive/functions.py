"""Psychometric functions: accuracy along a control parameter, the level at which it passes a
target, and a confidence interval for that level. `fit_checks.py` tests how well a function fits."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from looktwice.eval.statistics.intervals import Codes, Floats, cluster_sums, student_quantile

Direction = Literal["rising", "falling"]

THRESHOLD_GRID_SIZE = 241  # candidate thresholds; half of them lie outside the levels
# per range of the levels: from one that spans the whole range to a step
SLOPE_GRID = np.geomspace(4, 100, 16)
LAPSE_RATES = np.array([0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12])
RANGE_MARGIN = 0.5  # how far beyond the levels a threshold may lie, as a share of their range
MIN_LOG_RATIO = np.log(10)  # one direction is at least ten times as likely as the other
COARSE_GRID_STEP = 2  # every second step, slope and lapse rate suffice to choose the next question


@dataclass(frozen=True)
class Threshold:
    """The level at which accuracy passes the target, with its 95 % interval.

    `side` is "below" or "above" if the median lies below or above all levels that were asked, else
    "".
    `slope` is the slope of the logistic, per unit of the level or, on a logarithmic scale, of its
    natural logarithm. `lapse` is the share of errors at the easy end. `curve` is the mean function
    at the levels; `answer_counts` and `correct_counts` are the numbers of answers and of correct
    answers at each level of the `model`. `dispersion` is the factor by which the answers carry less
    information than independent ones, because questions share a picture or a group.
    """

    value: float
    low: float
    high: float
    side: Literal["", "below", "above"]
    model: PsychometricGrid
    slope: float
    lapse: float
    answer_counts: tuple[int, ...]
    correct_counts: tuple[float, ...]
    curve: tuple[float, ...]
    dispersion: float


@dataclass(frozen=True)
class PsychometricGrid:
    """A grid of candidate functions: p(x) = guess + (1 - guess - lapse) logistic(slope (x -
    threshold) + c).

    The constant c makes the accuracy at the threshold equal the `target`. `levels` are the levels
    that can be asked; with `is_log`, their logarithms are used. Thresholds range from half a range
    below the levels to half a range above, with equal prior weights. Slopes range from a rise over
    the whole range to a step; their prior weight on the log scale is the inverse square root
    of the slope, halfway between equal weights on that scale and equal weights for equal widths of
    the rise. Lapse rates have a Beta(1, 20) prior. Raises ValueError for fewer than two levels, a
    level without a logarithm, and a target that no function reaches.
    """

    levels: tuple[float, ...]
    guess: float = 0.0
    target: float = 0.75
    is_log: bool = False
    direction: Direction = "rising"
    grid_step: int = 1

    def __post_init__(self) -> None:
        if len(set(self.levels)) < 2 or list(self.levels) != sorted(set(self.levels)):
            raise ValueError(
                f"a threshold needs two or more different levels in rising order, got {self.levels}"
            )
        if self.is_log and self.levels[0] <= 0:
            raise ValueError(
                f"a logarithmic scale needs levels above 0, got {self.levels[0]:g}; set scale:"
                " linear"
            )
        if not self.guess + 0.02 <= self.target <= 0.98 - LAPSE_RATES[-1]:
            raise ValueError(
                f"the target must be above the accuracy of guessing, {self.guess:g}, and at most "
                f"{0.98 - LAPSE_RATES[-1]:.2f}, got {self.target:g}"
            )

    @cached_property
    def thresholds(self) -> Floats:
        """The candidate thresholds: levels or, with `is_log`, their natural logarithms."""
        first, last = self._interval_ends
        beyond = RANGE_MARGIN * (last - first)
        return np.linspace(first - beyond, last + beyond, THRESHOLD_GRID_SIZE // self.grid_step)

    @cached_property
    def slopes(self) -> Floats:
        """The candidate slopes of the logistic, per unit of `thresholds`."""
        first, last = self._interval_ends
        return np.asarray(SLOPE_GRID[:: self.grid_step] / (last - first))

    @property
    def _interval_ends(self) -> Floats:
        return self._convert_to_scale(np.array([self.levels[0], self.levels[-1]]))

    @cached_property
    def lapse_rates(self) -> Floats:
        """The candidate lapse rates."""
        return LAPSE_RATES[:: self.grid_step]

    @cached_property
    def prior(self) -> Floats:
        """The prior probability of each function: (thresholds, slopes, lapses), sums to 1."""
        nuisance = self.slopes[:, None] ** -0.5 * (1 - self.lapse_rates) ** 19
        weights = np.broadcast_to(nuisance, (len(self.thresholds), *nuisance.shape))
        return np.asarray(weights / weights.sum())

    @cached_property
    def accuracies(self) -> Floats:
        """The accuracy of each function at each level: (levels, thresholds, slopes, lapses)."""
        from scipy.special import expit, logit

        sign = 1 if self.direction == "rising" else -1
        away = sign * (
            self._convert_to_scale(np.array(self.levels))[:, None] - self.thresholds[None]
        )
        span = 1 - self.guess - self.lapse_rates
        steep = away[..., None, None] * self.slopes[:, None] + logit(
            (self.target - self.guess) / span
        )
        return np.clip(self.guess + span * expit(steep), 1e-6, 1 - 1e-6)

    @cached_property
    def _log_accuracies(self) -> tuple[Floats, Floats]:
        return np.log(self.accuracies), np.log1p(-self.accuracies)

    def compute_posterior(
        self, answer_counts: Floats, correct_counts: Floats
    ) -> tuple[Floats, float]:
        """Return the posterior probability of each function, summing to 1, and the log of the
        marginal likelihood.

        `answer_counts` and `correct_counts` hold the number of answers and of correct answers at
        each level; scores of graded tasks may be fractions.
        """
        (hit, miss), used = self._log_accuracies, answer_counts > 0
        likely = np.tensordot(correct_counts[used], hit[used], 1) + np.tensordot(
            (answer_counts - correct_counts)[used], miss[used], 1
        )
        top = float(likely.max())
        weights = self.prior * np.exp(likely - top)
        total = float(weights.sum())
        return weights / total, top + float(np.log(total))

    def estimate_threshold(
        self, answer_counts: Floats, correct_counts: Floats, dispersion: float = 1.0
    ) -> Threshold:
        """Estimate the threshold and its interval from answers that carry `dispersion` times less
        information than independent ones."""
        weights, _ = self.compute_posterior(answer_counts / dispersion, correct_counts / dispersion)
        low, middle, high = self._find_interval_from_weights(
            weights, float(answer_counts.sum()) / dispersion
        )
        side: Literal["", "below", "above"] = ""
        if not self.levels[0] <= middle <= self.levels[-1]:
            side = "below" if middle < self.levels[0] else "above"
        slope = float(np.exp((weights.sum(axis=(0, 2)) * np.log(self.slopes)).sum()))
        return Threshold(
            middle,
            low,
            high,
            side,
            self,
            slope,
            float((weights.sum(axis=(0, 1)) * self.lapse_rates).sum()),
            tuple(map(round, answer_counts)),
            tuple(map(float, correct_counts)),
            tuple(float((weights * accuracy).sum()) for accuracy in self.accuracies),
            dispersion,
        )

    def find_best_accuracies(self, answer_counts: Floats, correct_counts: Floats) -> Floats:
        """Return the accuracy at each level under the most likely function."""
        place = self._compute_log_likelihoods(answer_counts, correct_counts[None])[0].argmax()
        return self.accuracies.reshape(len(answer_counts), -1)[:, place]

    def compute_deviances(self, answer_counts: Floats, correct_counts: Floats) -> Floats:
        """Return the deviance of each set of answers, (sets, levels), from its best-fitting
        function: twice a log-likelihood ratio."""
        from scipy.special import xlogy

        share = correct_counts / answer_counts
        whole = (
            xlogy(correct_counts, share) + xlogy(answer_counts - correct_counts, 1 - share)
        ).sum(axis=1)
        blocks = np.array_split(
            correct_counts, -(-len(correct_counts) // 50)
        )  # blocks of 50 save memory
        best = np.concatenate(
            [self._compute_log_likelihoods(answer_counts, block).max(axis=1) for block in blocks]
        )
        return np.asarray(2 * (whole - best))

    def _compute_log_likelihoods(self, answer_counts: Floats, correct_counts: Floats) -> Floats:
        """Return the log-likelihood of each set of answers, (sets, levels), under each function:
        (sets, functions)."""
        hit, miss = (part.reshape(len(answer_counts), -1) for part in self._log_accuracies)
        return correct_counts @ hit + (answer_counts - correct_counts) @ miss

    def find_interval(
        self, answer_counts: Floats, correct_counts: Floats
    ) -> tuple[float, float, float]:
        """Return the threshold's interval and median: (lower end, median, upper end).

        Slope and lapse rate are integrated out of the likelihood (Berger, Liseo and Wolpert 1999).
        The interval holds every threshold whose log-likelihood, doubled, is below the maximum by at
        most the 95 % point of F with 1 and n - 3 degrees of freedom. Percentiles of the same
        weights would be far too wide after a staircase, which carries little information on the
        slope: shallow functions would account for most of their width.
        """
        return self._find_interval_from_weights(
            self.compute_posterior(answer_counts, correct_counts)[0], float(answer_counts.sum())
        )

    def _find_interval_from_weights(self, weights: Floats, n: float) -> tuple[float, float, float]:
        # the prior of thresholds is uniform, so this is their likelihood
        marginal = weights.sum(axis=(1, 2))
        # F with one degree of freedom is the square of Student's t
        limit = student_quantile(max(1, n - 3)) ** 2
        deficit = 2 * np.log(marginal.max() / np.maximum(marginal, 1e-300)) - limit
        inside = np.flatnonzero(deficit <= 0)
        low, high = (
            self._find_crossing(deficit, int(inside[place]), step)
            for place, step in ((0, -1), (-1, 1))
        )
        below = np.cumsum(marginal[inside]) - marginal[inside] / 2
        middle = np.clip(
            np.interp(marginal[inside].sum() / 2, below, self.thresholds[inside]), low, high
        )
        low, middle, high = (
            float(np.exp(level) if self.is_log else level) for level in (low, middle, high)
        )
        return low, middle, high

    def _find_crossing(self, deficit: Floats, inside: int, step: int) -> float:
        """Interpolate the threshold at which `deficit` crosses 0, between the last one `inside` and
        the next; return the end of the grid if there is no next one."""
        end, outside = self.thresholds[inside], inside + step
        if not 0 <= outside < len(deficit):
            return float(end)
        return float(
            end
            + (self.thresholds[outside] - end)
            * deficit[inside]
            / (deficit[inside] - deficit[outside])
        )

    def _convert_to_scale(self, levels: Floats) -> Floats:
        return np.log(levels) if self.is_log else levels


def fit_threshold(
    levels: Sequence[float],
    values: Sequence[float],
    guess: float = 0.0,
    target: float = 0.75,
    log: bool = False,
    direction: Direction | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Threshold:
    """Fit a threshold to answers, each a level and a value in 0..1. Without a direction, one is
    chosen if it fits at least ten times as well as the other.

    The fit uses a grid of psychometric functions, as Kuss, Jaekel and Wichmann (2005) and psignifit
    4 do. `clusters` holds the cluster of each answer: if answers of a cluster are correlated, the
    interval is wider. Raises ValueError, also if no direction is given and the answers do not
    decide it.
    """
    places, scores = sorted(set(levels)), np.asarray(values, float)
    number = np.searchsorted(places, np.asarray(levels, float))
    answer_counts = np.bincount(number, minlength=len(places)).astype(float)
    correct_counts: Floats = np.bincount(number, scores, minlength=len(places)).astype(float)
    ways: tuple[Direction, ...] = ("rising", "falling") if direction is None else (direction,)
    models = [PsychometricGrid(tuple(map(float, places)), guess, target, log, way) for way in ways]
    fits = [model.compute_posterior(answer_counts, correct_counts)[1] for model in models]
    if max(fits) - min(fits) < MIN_LOG_RATIO and direction is None:
        raise ValueError("the answers do not show whether accuracy rises or falls; set direction")
    model = models[int(np.argmax(fits))]
    plain = model.estimate_threshold(answer_counts, correct_counts)
    if clusters is None or len(set(clusters)) in (1, len(clusters)):
        return plain
    return model.estimate_threshold(
        answer_counts, correct_counts, _estimate_dispersion(plain, number, scores, clusters)
    )


def _estimate_dispersion(
    fitted: Threshold, level_indices: Codes, values: Floats, clusters: Sequence[Hashable]
) -> float:
    """Return the factor, 1 or more, by which the threshold's score varies more between clusters
    than for independent answers.

    `level_indices` are the indices of the values' levels. The score is the derivative of an
    answer's log-likelihood with respect to the threshold; the factor is its variance between
    clusters, divided by the variance that the likelihood implies (Huber's sandwich estimator).
    """
    model, curve = fitted.model, np.asarray(fitted.curve)
    # the derivative of a logistic, up to a factor
    steep = (curve - model.guess) * (1 - model.lapse_rates[0] - curve).clip(0)
    info = (steep**2 / (curve * (1 - curve)))[level_indices].sum()
    sums, _ = cluster_sums(
        (steep / (curve * (1 - curve)))[level_indices] * (values - curve[level_indices]), clusters
    )
    count = len(sums)
    return max(1.0, float((sums**2).sum() / max(float(info), 1e-12) * count / (count - 1)))
