"""Compares contestants on the samples that all of them answered: which answers are right, and how
far the contestants agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.scoring.verdict import PointScores, Verdict
from looktwice.eval.statistics.answers import (
    cohens_kappa,
    compute_majority_value,
    fleiss_kappa,
    swap_rate_over_halves,
)
from looktwice.eval.statistics.intervals import (
    Codes,
    Estimate,
    Floats,
    bootstrap_mean,
    cluster_codes,
)
from looktwice.eval.statistics.paired import ValueMatrix

MAX_ANSWERS = 24  # more distinct answers are free text, for which kappa means little

Question = tuple[str, str]
"""(task id, sample id)"""


@dataclass(frozen=True, eq=False)
class SharedSamples:
    """Contestants on the questions with a correct answer that all of them answered without failing.

    `values` are means over draws; everything else uses the first draw, in which unreadable answers
    count as errors, as in BLINK's own comparison of models (App. C.2). `left_out` counts the
    questions that only some of them answered. A question asked in several variants of a task is one
    cluster.
    """

    values: ValueMatrix[str, Question]
    hits: NDArray[np.bool_]  # (contestants, questions)
    answers: Sequence[Sequence[str | None]]
    left_out: int
    task: str = ""

    @classmethod
    def from_arms(cls, sides: Mapping[str, Sequence[PointScores]], task: str = "") -> SharedSamples:
        """Return the comparison of contestants, given the arms of each by name."""
        return ContestantMatrix.from_arms(sides).compare([*sides], task)

    @property
    def n(self) -> int:
        """The number of questions."""
        return len(self.values.units)

    def count(self, *right: bool) -> int:
        """Return the number of questions on which each contestant is right (True) or wrong (False)
        as in `right`."""
        return int(np.all(np.array(right) == self.hits.T, axis=1).sum())

    @property
    def shares(self) -> list[float]:
        """The accuracy of each contestant, followed by the share of questions on which any of them
        is right."""
        return [*self.hits.mean(axis=1).tolist(), float(self.hits.any(axis=0).mean())]

    @property
    def mistakes(self) -> str:
        """The number of mistakes that all share, and the number that each makes."""
        counts = " and ".join(map(str, (~self.hits).sum(axis=1)))
        return f"{(~self.hits).all(axis=0).sum()}\nof {counts}"

    @property
    def kappa(self) -> Estimate:
        """The agreement of two contestants, beyond chance, on which questions they answer
        correctly."""
        mine, theirs = self.hits.tolist()
        return cohens_kappa(mine, theirs, self.values.clusters)

    @property
    def agreement(self) -> Estimate | None:
        """The agreement of all answers beyond chance, if these are choices."""
        kinds = {answer for answers in self.answers for answer in answers}
        return (
            fleiss_kappa(self.answers, self.values.clusters) if len(kinds) <= MAX_ANSWERS else None
        )

    @property
    def oracle(self) -> Estimate:
        """The share of questions on which any contestant is right."""
        return bootstrap_mean(self.hits.any(axis=0), self.values.clusters)

    @property
    def majority(self) -> Estimate:
        """The accuracy of the most frequent answer."""
        votes = map(
            compute_majority_value, zip(*self.answers, strict=True), self.hits.T.astype(float)
        )
        return bootstrap_mean([*votes], self.values.clusters)

    @property
    def swap_rate(self) -> Estimate:
        """The probability that two new samples of half the size rank the two contestants in
        opposite orders."""
        first, rival = self.values.value
        return swap_rate_over_halves(first - rival, self.values.clusters)


@dataclass(frozen=True, eq=False)
class ContestantMatrix:
    """The answers of contestants (rows) to questions (columns), for comparing any of them.

    `values` are means over draws, NaN where a contestant was not asked or failed; `hits` and
    `answers` are first draws; `clusters` and `strata` number the cluster and the task of each
    question; `orders` holds, for each contestant, its questions in its own order.
    """

    names: Sequence[str]
    questions: Sequence[Question]
    values: Floats
    hits: NDArray[np.bool_]
    answers: NDArray[np.object_]
    clusters: Codes
    strata: Codes
    orders: Sequence[Codes]

    @classmethod
    def from_arms(cls, sides: Mapping[str, Sequence[PointScores]]) -> ContestantMatrix:
        """Return the matrix of contestants, given the arms of each by name."""
        places, clusters = dict[Question, int](), list[str]()
        numbered = dict[tuple[str, int], Codes]()
        for arm in chain.from_iterable(sides.values()):
            task, ids = arm.point.task_id, arm.columns.ids
            if (task, id(ids)) not in numbered:
                for name in ids:
                    if (task, name) not in places:
                        places[task, name] = len(places)
                        clusters.append(arm.clusters[name])
                own = [places[task, name] for name in ids]
                numbered[task, id(ids)] = np.array(own, np.int64)
        shape, orders = (len(sides), len(places)), list[Codes]()
        values, hits = np.full(shape, np.nan), np.zeros(shape, bool)
        answers = np.empty(shape, object)
        for row, arms in enumerate(sides.values()):
            order = [np.zeros(0, np.int64)]
            for arm in arms:
                columns, rows = arm.columns, arm.first_rows
                asked = columns["sample"][rows]
                at = numbered[arm.point.task_id, id(columns.ids)][asked]
                names = map(columns.ids.__getitem__, asked.tolist())
                values[row, at] = [*map(arm.comparable_values.__getitem__, names)]
                hits[row, at] = columns.has_verdict(Verdict.RIGHT)[rows]
                answers[row, at] = [words.answer for words in columns.iterate_words(rows)]
                order.append(at)
            every = np.concatenate(order)
            orders.append(every[np.sort(np.unique(every, return_index=True)[1])])
        codes = cluster_codes(clusters, len(places)) if places else np.zeros(0, np.int64)
        tasks = [task for task, _ in places]
        strata = cluster_codes(tasks, len(places)) if places else np.zeros(0, np.int64)
        return cls([*sides], [*places], values, hits, answers, codes, strata, orders)

    def compare(self, names: Sequence[str], task: str = "") -> SharedSamples:
        """Return the comparison of some of the contestants."""
        rows = np.array([self.names.index(name) for name in names], np.int64)
        union, seen = list[Codes](), np.zeros(len(self.questions), bool)
        for row in rows:
            union.append(self.orders[row][~seen[self.orders[row]]])
            seen[union[-1]] = True
        every = np.concatenate([np.zeros(0, np.int64), *union])
        is_shared = ~np.isnan(self.values[np.ix_(rows, every)]).any(axis=0)
        shared = every[is_shared]
        values = ValueMatrix(
            self.values[np.ix_(rows, shared)],
            tuple(names),
            tuple([self.questions[place] for place in shared.tolist()]),
            _number_in_order(self.clusters[every])[is_shared],
            _number_in_order(self.strata[every])[is_shared] if len(every) else None,
        )
        hits = self.hits[np.ix_(rows, shared)]
        answers = self.answers[np.ix_(rows, shared)].tolist()
        return SharedSamples(values, hits, answers, len(every) - len(shared), task)


def _number_in_order(codes: Codes) -> Codes:
    """Return codes numbered 0, 1, 2 ... in the order in which they first appear."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
