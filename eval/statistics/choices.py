"""Position bias: whether a contestant prefers a choice for its letter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erfc, exp, gamma, sqrt

import numpy as np


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
