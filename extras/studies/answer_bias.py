"""The answer bias of a model that does not see the image (towards a word, towards a letter, or
towards repeating a guess), and how often this bias makes answers right.

A model that always says "red" is right in every draw of a question whose key is red, but knows
nothing. Its bias shows in the wrong choices of *other* questions. The right answers to a question
are therefore tested against this bias rather than against 1 over the number of choices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from string import ascii_uppercase
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FALSE_DISCOVERY_RATE = 0.01
"""The false discovery rate among the listed questions (Benjamini and Hochberg 1995)."""
MIN_RIGHT_SHARE = 0.8
"""Only questions of which at least this share of the draws is right can be listed; the bias is
estimated from the other questions."""
KNOWN_RIGHT_SHARE, LEAK_SHARE, TARGET_POWER = 0.9, 0.1, 0.8
"""The power is computed for known questions, which are right in the first share of their draws and
make up the second share of all questions; the third is the target power."""
CANDIDATE_DRAW_COUNTS = (*range(2, 21), 25, 30, 40, 60)

MEAN_GRID = np.sin(np.pi / 2 * (np.arange(30) + 0.5) / 30) ** 2  # evenly spaced in the arc sine
# from one guess for all draws of a question to a new guess in each draw
FIRMNESS_GRID = np.geomspace(0.1, 1000, 11)
# weight of the uniform prior over means and firmness, in wrong choices
PRIOR_COUNT = 0.25
MAX_FIT_ROUNDS = 40  # of expectation-maximization; more rounds change nothing that a table shows
MAX_OFFERS = 100_000  # limit for open questions, each of which offers the keys of all others


@dataclass(frozen=True)
class BlindQuestion:
    """A model's answers to a question without its image: the count of each answer in
    `draw_count` draws, of which `right_count` are right.

    `choices` are in the sample's order, and `key` is the right one. An open question has no choices
    and any text as key; `accepts` returns whether an answer is right.
    """

    sample: str
    text: str
    choices: tuple[str, ...]
    key: str
    answers: Mapping[str, int]
    draw_count: int
    right_count: int
    accepts: Callable[[str], bool] | None = None


class Offer(NamedTuple):
    """An answer that a question offers, its letter in the sample's order ("" for an open question),
    and the number of the question's draws that give it (`draw_count`)."""

    question_index: int
    word: str
    letter: str
    draw_count: int


class Grouping(NamedTuple):
    """A rule that groups the offers that share a bias: the same word or letter (`offer_field` of
    Offer) in questions with the same `wording`; `description` is for tables."""

    description: str
    wording: Callable[[str], str]
    offer_field: str


WORDINGS: Mapping[str, Callable[[str], str]] = {
    "": lambda text: "",
    " in questions with the same first two words": lambda text: " ".join(
        text.casefold().split()[:2]
    ),
    " in questions of one wording": lambda text: re.sub(r"\d+", "0", text.casefold()),
}
GROUPINGS = tuple(
    Grouping(f"{'all choices alike' if not by else f'each {by}'}{where}", wording, by)
    for (where, wording), by in product(WORDINGS.items(), ("", "letter", "word"))
)


class FittedBias(NamedTuple):
    """A fitted bias: the weights over MEAN_GRID and over FIRMNESS_GRID, each group's weights over
    MEAN_GRID (groups, means), and the log-likelihood."""

    mean_weights: Floats
    firmness_weights: Floats
    group_weights: Floats
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class AnswerBias:
    """A model's answer bias, estimated from the wrong choices of the questions that it does not
    consistently answer right.

    The number of a question's draws that give a choice is beta-binomial: the choices of a group
    share its mean, and its firmness varies between questions. Neither is a point estimate: all
    groups together give the weights over a grid of means and firmness (empirical Bayes by
    expectation-maximization), and a group's answers give its weights over the means. So a word that
    was rarely offered may have any mean that other words have.
    """

    questions: Sequence[BlindQuestion]
    wrong_offers: Sequence[Offer]
    grouping: Grouping

    @cached_property
    def groups(self) -> Mapping[Hashable, int]:
        """The index of each group of wrong choices."""
        names = dict.fromkeys(self._find_group(offer) for offer in self.wrong_offers)
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def fitted_bias(self) -> FittedBias:
        """The bias fitted to the wrong choices; equal counts, and groups with equal counts, are
        computed only once."""
        means, firmness = (np.full(len(grid), 1 / len(grid)) for grid in (MEAN_GRID, FIRMNESS_GRID))
        if not self.wrong_offers:
            return FittedBias(means, firmness, np.zeros((0, len(MEAN_GRID))), 0.0)
        counts, group = list[tuple[int, int]](), list[int]()
        for offer in self.wrong_offers:
            counts.append((offer.draw_count, self.questions[offer.question_index].draw_count))
            group.append(self.groups[self._find_group(offer)])
        kinds, kind = np.unique(np.array(counts, np.int64), axis=0, return_inverse=True)
        table = np.zeros((len(self.groups), len(kinds)), np.int64)
        np.add.at(table, (np.array(group, np.int64), np.asarray(kind.reshape(-1), np.int64)), 1)
        patterns, pattern, times = np.unique(table, axis=0, return_inverse=True, return_counts=True)
        chance = _compute_beta_binomial(kinds[:, 0], kinds[:, 1])
        for _ in range(MAX_FIT_ROUNDS):
            parts = chance * firmness
            by_mean = parts.sum(axis=2)
            logs = patterns @ np.log(by_mean) + np.log(means)
            top = logs.max(axis=1, keepdims=True)
            totals = np.exp(logs - top).sum(axis=1, keepdims=True)
            shares = np.exp(logs - top) / totals
            means = (times @ shares + PRIOR_COUNT / len(MEAN_GRID)) / (
                len(self.groups) + PRIOR_COUNT
            )
            weights = patterns.T @ (times[:, None] * shares) / by_mean
            firmness = np.einsum("km,kmf->f", weights, parts) + PRIOR_COUNT / len(FIRMNESS_GRID)
            firmness /= firmness.sum()
        likelihood = float(times @ (top + np.log(totals))[:, 0])
        return FittedBias(means, firmness, shares[pattern.reshape(-1)], likelihood)

    def compute_tails(self, draws: int) -> Floats:
        """Return, for each question and r, the probability that bias makes r or more of `draws`
        draws right, (questions, draws + 1)."""
        chance = (
            _compute_beta_binomial(np.arange(draws + 1), np.full(draws + 1, draws))
            @ self.fitted_bias.firmness_weights
        )
        tails = np.minimum(1, np.cumsum(chance[::-1], axis=0)[::-1])
        return np.asarray(self._key_weights @ tails.T)

    @cached_property
    def p_values(self) -> Floats:
        """The p-value of each question: the tail probability of its number of right draws, or 1 if
        less than MIN_RIGHT_SHARE of its draws are right."""
        out = np.ones(len(self.questions))
        tails = {
            draws: self.compute_tails(draws)
            for draws in {question.draw_count for question in self.questions}
        }
        for number, question in enumerate(self.questions):
            if question.right_count >= MIN_RIGHT_SHARE * question.draw_count:
                out[number] = tails[question.draw_count][number, question.right_count]
        return out

    @cached_property
    def expected_right_share(self) -> float:
        """The share of draws that bias alone is expected to make right."""
        return float((self._key_weights @ MEAN_GRID).mean())

    @cached_property
    def firm_share(self) -> float:
        """The share of questions that give one wrong choice in MIN_RIGHT_SHARE of their draws,
        among the questions that are not right that often."""
        firm = {
            o.question_index
            for o in self.wrong_offers
            if o.draw_count >= MIN_RIGHT_SHARE * self.questions[o.question_index].draw_count
        }
        return len(firm) / max(1, len({offer.question_index for offer in self.wrong_offers}))

    def compute_power(self, draws: int) -> float:
        """Return the share of known questions that would be listed after `draws` draws of each
        question, if LEAK_SHARE of all questions are known.

        A known question is right in a draw with probability KNOWN_RIGHT_SHARE.
        """
        from scipy.special import bdtrc

        low_enough = self.compute_tails(draws) <= FALSE_DISCOVERY_RATE * LEAK_SHARE
        low_enough[:, np.arange(draws + 1) < MIN_RIGHT_SHARE * draws] = False
        fewest = np.where(low_enough.any(axis=1), low_enough.argmax(axis=1), draws + 1)
        return float(np.mean(bdtrc(fewest - 1.0, draws, KNOWN_RIGHT_SHARE) * (fewest <= draws)))

    def find_draws_needed(self) -> int | None:
        """Return the smallest of CANDIDATE_DRAW_COUNTS that reaches TARGET_POWER, or None."""
        return next(
            (draws for draws in CANDIDATE_DRAW_COUNTS if self.compute_power(draws) >= TARGET_POWER),
            None,
        )

    @cached_property
    def _key_weights(self) -> Floats:
        """The weights over MEAN_GRID for the correct answer of each question: those of its group,
        or of all groups together if its group is unknown."""
        groups = []
        for number, question in enumerate(self.questions):
            key = Offer(number, question.key, _map_letters(question).get(question.key, ""), 0)
            groups.append(self.groups.get(self._find_group(key), -1))
        return np.asarray(
            np.vstack([self.fitted_bias.group_weights, self.fitted_bias.mean_weights])[groups]
        )

    def _find_group(self, offer: Offer) -> Hashable:
        question, grouping = self.questions[offer.question_index], self.grouping
        choice = getattr(offer, grouping.offer_field) if grouping.offer_field else ""
        return grouping.wording(question.text), len(question.choices), choice


def estimate_bias(questions: Sequence[BlindQuestion]) -> AnswerBias:
    """Estimate the bias under the grouping of GROUPINGS with the highest likelihood of the wrong
    choices.

    Groupings with fewer than three wrong choices per group on average are skipped. Questions that
    are right in MIN_RIGHT_SHARE or more of their draws are left out, because knowledge is not bias,
    and because no question may influence its own p-value.
    """
    wrong = []
    for offer in _list_offers(questions):
        question = questions[offer.question_index]
        if (
            question.right_count < MIN_RIGHT_SHARE * question.draw_count
            and offer.word != question.key
        ):
            wrong.append(offer)
    coarsest, *others = (AnswerBias(questions, wrong, grouping) for grouping in GROUPINGS)
    finer = [bias for bias in others if 3 * len(bias.groups) <= len(wrong)]
    return max([coarsest, *finer], key=lambda bias: bias.fitted_bias.log_likelihood)


def _list_offers(questions: Sequence[BlindQuestion]) -> Iterator[Offer]:
    """Yield every choice of every question; an open question offers the keys of all open
    questions."""
    opened, keys = list[int](), dict[str, BlindQuestion]()
    for number, question in enumerate(questions):
        for word, letter in _map_letters(question).items():
            yield Offer(number, word, letter, question.answers.get(word, 0))
        if not question.choices:
            opened.append(number)
            keys[question.key] = question
    for number in opened[: max(50, MAX_OFFERS // max(1, len(keys)))]:
        answers = questions[number].answers.items()
        for key, question in keys.items():
            accepts = question.accepts or key.__eq__
            yield Offer(number, key, "", sum(times for answer, times in answers if accepts(answer)))


def _map_letters(question: BlindQuestion) -> dict[str, str]:
    return dict(zip(question.choices, ascii_uppercase, strict=False))


def _compute_beta_binomial(counts: Ints, draws: Ints) -> Floats:
    """Compute the beta-binomial probability of each count, given its number of draws, for each mean
    and firmness, (counts, means, firmness)."""
    from scipy.special import betaln

    yes, no = MEAN_GRID[:, None] * FIRMNESS_GRID, (1 - MEAN_GRID[:, None]) * FIRMNESS_GRID
    count, rest = counts[:, None, None], (draws - counts)[:, None, None]
    ways = -np.log1p(draws) - betaln(counts + 1, draws - counts + 1)
    return np.asarray(
        np.exp(ways[:, None, None] + betaln(yes + count, no + rest) - betaln(yes, no))
    )
