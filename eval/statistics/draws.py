"""Several draws of every sample: how much of the spread is the model's own, pass@k, and the
majority's answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class DrawVariance:
    """The variance of a value split into that between samples and that between the draws of one
    sample.

    `samples_error` and `draws_error` are what each adds to the standard error of the mean over n
    samples with k draws each: more samples lessen both, more draws the second alone.
    """

    mean: float
    between: float
    within: float
    n: int
    draws: int

    @property
    def samples_error(self) -> float:
        """The standard error of the mean that is left with any number of draws."""
        return sqrt(self.between / self.n)

    @property
    def draws_error(self) -> float:
        """The standard error of the mean on these very samples, over repetitions of the run."""
        return sqrt(self.within / (self.n * self.draws))

    @property
    def draw_share(self) -> float:
        """The share of the variance of a single answer that lies within samples; 0 where nothing
        varies."""
        total = self.between + self.within
        return self.within / total if total > 0 else 0.0


def split_variance(values: ArrayLike) -> DrawVariance:
    """The variance components of values (n samples, k draws), by the mean squares of a one-way
    analysis of variance.

    The component between samples is not below 0 (Searle, Casella and McCulloch 1992, section 3.6).
    Raises ValueError for fewer than two samples or draws.
    """
    data = np.asarray(values, float)
    if data.ndim != 2 or min(data.shape) < 2:
        raise ValueError(
            f"to split the variance takes two samples and two draws of each, found {data.shape}"
        )
    n, draws = data.shape
    within = float(data.var(axis=1, ddof=1).mean())
    between = max(0.0, float(data.mean(axis=1).var(ddof=1)) - within / draws)
    return DrawVariance(float(data.mean()), between, within, n, draws)


def pass_at_k(right: int, draws: int, k: int) -> float:
    """The chance that of k draws at least one is right, where `right` of all draws were.

    The unbiased 1 - C(n - c, k) / C(n, k) of Chen et al. (2021, "Evaluating Large Language Models
    Trained on Code", section 2.1). Raises ValueError unless 1 <= k <= draws and 0 <= right <=
    draws.
    """
    if not (1 <= k <= draws and 0 <= right <= draws):
        raise ValueError(
            f"pass@k needs 1 <= k <= draws and 0 <= right <= draws, found {k=}, {draws=}, {right=}"
        )
    return 1.0 - comb(draws - right, k) / comb(draws, k)


def majority_value(answers: Sequence[str | None], values: Sequence[float]) -> float:
    """The value of the most frequent answer; of several equally frequent ones their mean; 0 where
    none answered."""
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        return 0.0
    top = max(counts.values())
    worth = dict(zip(answers, values, strict=True))
    leaders = [worth[answer] for answer, count in counts.items() if count == top]
    return sum(leaders) / len(leaders)
