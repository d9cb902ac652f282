"""What answers tell: agreement of contestants or raters, a taste for some letter, and several draws
of every sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, erfc, exp, gamma, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looktwice.eval.statistics.intervals import Clusters, Estimate, Floats, bootstrap_statistic


def cohens_kappa(
    answers: Sequence[Hashable], others: Sequence[Hashable], clusters: Clusters | None = None
) -> Estimate:
    """Agreement of two raters beyond that of two independent ones with their habits (Cohen 1960).

    1 where only one answer occurs. The interval is the cluster bootstrap's. Raises ValueError for
    no items and for unequal lengths.
    """
    if len(answers) != len(others):
        raise ValueError(
            f"two raters need the same items, found {len(answers)} and {len(others)} answers"
        )
    (mine, theirs), count = _codes([answers, others])
    columns = np.column_stack([mine == theirs, np.eye(count)[mine], np.eye(count)[theirs]])

    def kappa(means: Floats) -> Floats:
        chance = (means[:, 1 : count + 1] * means[:, count + 1 :]).sum(axis=1)
        return _beyond(means[:, 0], chance)

    return bootstrap_statistic(columns, clusters, kappa, -1.0)


def fleiss_kappa(
    ratings: Sequence[Sequence[Hashable]], clusters: Clusters | None = None
) -> Estimate:
    """Agreement of any number of raters beyond chance (Fleiss 1971); `ratings` holds the answers of
    each rater.

    1 where only one answer occurs. The interval is the cluster bootstrap's. Raises ValueError for
    fewer than two raters, for no items, and for raters of unequal lengths.
    """
    if len(ratings) < 2 or len({len(one) for one in ratings}) > 1:
        raise ValueError(
            "two or more raters of the same items are needed, found"
            f" {[len(one) for one in ratings]}"
        )
    codes, count = _codes(ratings)
    raters, table = len(ratings), np.sum([np.eye(count)[code] for code in codes], axis=0)
    pairs = (np.square(table).sum(axis=1) - raters) / (raters * (raters - 1))
    columns = np.column_stack([pairs, table / raters])

    def kappa(means: Floats) -> Floats:
        return _beyond(means[:, 0], np.square(means[:, 1:]).sum(axis=1))

    return bootstrap_statistic(columns, clusters, kappa, -1.0)


def _codes(ratings: Sequence[Sequence[Hashable]]) -> tuple[list[NDArray[np.int64]], int]:
    """The answers of each rater as numbers, whatever answer comes first, and how many answers there
    are."""
    names = sorted({answer for answers in ratings for answer in answers}, key=repr)
    places = {answer: place for place, answer in enumerate(names)}
    codes = [np.array([places[answer] for answer in answers], np.int64) for answers in ratings]
    return codes, len(places)


def _beyond(observed: Floats, chance: Floats) -> Floats:
    """Kappa of an observed agreement and that of chance, 1 where chance leaves nothing to agree
    on."""
    room = 1 - chance
    return np.where(room > 1e-12, (observed - chance) / np.where(room > 1e-12, room, 1.0), 1.0)


@dataclass(frozen=True)
class PositionBias:
    """Of n answered questions: how often each letter was chosen, how often it is the key, and the
    recall at it.

    Shares lie in 0..1. `spread` is the standard deviation of the recalls, and `p` that of the
    chi-squared test that they are all alike.
    """

    chosen: Mapping[str, float]
    key: Mapping[str, float]
    recall: Mapping[str, float]
    spread: float
    p: float
    n: int


def position_bias(answers: Sequence[str], keys: Sequence[str]) -> PositionBias:
    """The bias of these answers, letters as the contestant saw them, to questions with these keys.

    The spread of the recalls is RStd of Zheng et al. (2024, "Large Language Models Are Not Robust
    Multiple Choice Selectors", section 2.2), over the letters that are the key of some question.
    Raises ValueError for no answers.
    """
    if not answers:
        raise ValueError("position bias needs at least one answered question")
    letters = sorted({*answers, *keys})
    given, true = np.array([*answers]), np.array([*keys])
    asked = np.array([np.sum(true == letter) for letter in letters])
    right = np.array([np.sum((true == letter) & (given == letter)) for letter in letters])
    some = asked > 0
    recalls, overall = right[some] / asked[some], right.sum() / len(true)
    expected = asked[some] * overall * (1 - overall)
    off = np.square(right[some] - asked[some] * overall)
    freedom = int(some.sum()) - 1
    p = (
        _chi_squared_tail(freedom, float((off / expected).sum()))
        if freedom > 0 and 0 < overall < 1
        else 1.0
    )
    shares = {letter: float(np.mean(given == letter)) for letter in letters}
    key = {letter: float(count) / len(true) for letter, count in zip(letters, asked, strict=True)}
    recall = dict(zip(np.array(letters)[some].tolist(), recalls.tolist(), strict=True))
    return PositionBias(shares, key, recall, float(recalls.std()), p, len(answers))


def _chi_squared_tail(freedom: int, x: float) -> float:
    """How often chi-squared with 1 or more degrees of freedom exceeds x (Abramowitz and Stegun
    26.4.4 and 26.4.5).

    A sum of a few terms, for which nobody should wait until scipy is open.
    """
    half, odd = x / 2, freedom % 2
    terms = (half ** (i + odd / 2) / gamma(i + 1 + odd / 2) for i in range(freedom // 2))
    return float((erfc(sqrt(half)) if odd else 0.0) + exp(-half) * sum(terms))


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
