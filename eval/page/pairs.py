"""What a page says in numbers: the accuracy of every contestant, paired differences of any two, and
a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import fsum
from statistics import fmean

import numpy as np

from looktwice.eval.page.data import PageAnswer, PageData
from looktwice.eval.statistics.intervals import (
    Estimate,
    Stratum,
    cluster_codes,
    mean_of_shares,
    share_interval,
)
from looktwice.eval.statistics.paired import compare_paired, correct
from looktwice.pipelines.counted import counted

MOST_COMPARED, MOST_INTERVALS = 400_000, 400
"""Any two contestants are compared while pairs times samples, and pairs times tasks, stay below
these; else each with the baseline alone. A bootstrap interval takes some milliseconds."""

ALL = -1
"""The number of the task that stands for all of them."""


@dataclass(frozen=True)
class ContestantScore:
    """A contestant on a task (ALL: on all of its own): its accuracy and interval, and the sums of
    its calls.

    The n samples lie in `clusters`: those of one group are one.

    `accuracy` over all tasks is the mean of the tasks' (macro); None where nothing was scored.
    """

    contestant: int
    task: int
    accuracy: float | None
    low: float | None
    high: float | None
    n: int
    sums: Mapping[str, float]
    clusters: int = 0


@dataclass(frozen=True)
class ContestantPair:
    """Two contestants on the samples of a task (ALL: of every task) that both were asked and
    neither failed.

    `out` samples are in one of the two alone. `p_holm` and `p_bh` are corrected over the pairs of
    the baseline on single tasks, or over those on ALL; else None.
    """

    contestant: int
    rival: int
    task: int
    paired: Estimate
    out: int
    p_holm: float | None = None
    p_bh: float | None = None


@dataclass(frozen=True)
class PageNumbers:
    """The numbers of a page."""

    data: PageData

    @cached_property
    def baseline(self) -> int:
        """The number of the contestant that others are compared with."""
        return next((i for i, who in enumerate(self.data.contestants) if who.baseline), 0)

    @cached_property
    def arms(self) -> list[ContestantScore]:
        """Each contestant on each of its tasks, then on ALL."""
        found = []
        for who in range(len(self.data.contestants)):
            mine = [self._arm(who, task) for c, task in self._answers if c == who]
            found += [*mine, self._all_tasks(who, mine)] if mine else []
        return found

    def _arm(self, who: int, task: int) -> ContestantScore:
        answers, sums = (
            [a for draws in self._answers[who, task].values() for a in draws],
            dict[str, float](),
        )
        for name in ("seconds", "tokens_in", "tokens_out", "cost"):
            known = [value for answer in answers if (value := getattr(answer, name)) is not None]
            if known and any(known):
                sums[name] = fsum(known) / len(known)
        units = self._scored.get((who, task))
        if units is None:
            return ContestantScore(who, task, None, None, None, 0, sums)
        found = share_interval(units.values, units.clusters)
        return ContestantScore(
            who, task, found.value, found.low, found.high, found.n, sums, found.clusters
        )

    def _all_tasks(self, who: int, arms: Sequence[ContestantScore]) -> ContestantScore:
        """The mean over tasks with its interval, and the mean of what an answer takes, weighted by
        n."""
        scored = [arm for arm in arms if arm.accuracy is not None]
        if not scored:
            return ContestantScore(who, ALL, None, None, None, 0, {})
        names = dict.fromkeys(name for arm in scored for name in arm.sums)
        n = sum(arm.n for arm in scored)
        sums = {name: sum(arm.sums.get(name, 0.0) * arm.n for arm in scored) / n for name in names}
        strata = [self._scored[who, arm.task]._replace(weight=1 / len(scored)) for arm in scored]
        found = mean_of_shares(strata)
        return ContestantScore(
            who, ALL, found.value, found.low, found.high, n, sums, found.clusters
        )

    @cached_property
    def _scored(self) -> Mapping[tuple[int, int], Stratum]:
        """By contestant and task: the values of the samples with a key, and their groups."""
        found = {}
        for key, answers in self._answers.items():
            shown = {
                sample: draws for sample, draws in answers.items() if draws[0].verdict != "hidden"
            }
            values = [fmean(answer.value for answer in draws) for draws in shown.values()]
            if values:
                found[key] = Stratum(np.array(values), [self._groups[sample] for sample in shown])
        return found

    @cached_property
    def pairs(self) -> list[ContestantPair]:
        """Any two contestants on each task that both have, and on ALL; with many contestants the
        baseline's alone."""
        count = len(self.data.contestants)
        some = [(other, self.baseline) for other in range(count) if other != self.baseline]
        every = [(b, a) for a, b in combinations(range(count), 2) if self.baseline not in (a, b)]
        few = (
            len(every) * len(self.data.samples) <= MOST_COMPARED
            and len(every) * len(self.data.tasks) <= MOST_INTERVALS
        )
        chosen = some + (every if few else [])
        pairs = [pair for mine, other in chosen for pair in self._compare(mine, other)]
        return correct(
            pairs,
            lambda pair: pair.paired.p if pair.rival == self.baseline else None,
            lambda pair: pair.task == ALL,
        )

    @cached_property
    def summary(self) -> list[str]:
        """Who did best, by how much, how sure and on what; made of the numbers alone."""
        scored = [arm for arm in self.arms if arm.accuracy is not None]
        names = [who.label for who in self.data.contestants]
        if not scored:
            return ["Nothing was scored: there is no sample with a key and an answer."]
        given = Counter(arm.contestant for arm in scored if arm.task != ALL)
        alike = [
            arm
            for arm in scored
            if arm.task == ALL and given[arm.contestant] == len(self.data.tasks)
        ]
        best = max(alike, key=lambda arm: arm.accuracy or 0.0, default=None)
        tasks, samples = (
            counted(len(self.data.tasks), "task"),
            counted(len(self.data.samples), "sample"),
        )
        where = f" as the mean of {tasks}" if len(self.data.tasks) > 1 else ""
        said = [f"{counted(len(names), 'contestant')} answered {samples} of {tasks}."]
        if best is not None and len(alike) > 1:
            who = (
                ""
                if len(alike) == len(names)
                else f" of the {len(alike)} contestants with every task"
            )
            most = f"{100 * (best.accuracy or 0.0):.1f} %"
            said[0] += f" {names[best.contestant]} has the highest accuracy{who}, {most}{where}."
        pairs = [pair for pair in self.pairs if pair.rival == self.baseline and pair.task == ALL]
        if pairs:
            first = max(pairs, key=lambda pair: pair.paired.value)
            said.append(_sentence(first, names))
            sure = [pair for pair in pairs if (pair.p_holm or 0.0) < 0.05]
            better, rivals = (
                sum(pair.paired.value > 0 for pair in sure),
                counted(len(pairs), "contestant"),
            )
            said.append(
                f"Against {names[self.baseline]}, on all tasks together, {better} of {rivals}"
                f" surely {'does' if better == 1 else 'do'} better and {len(sure) - better} worse"
                " (5 %, after Holm)."
            )
        return [*said, *self._left_out]

    @property
    def _left_out(self) -> list[str]:
        counts = Counter(answer.verdict for draws in self.data.answers.values() for answer in draws)
        words = [
            f"{counted(counts[kind], 'answer')} {kind}"
            for kind in ("unreadable", "failed")
            if counts[kind]
        ]
        return [f"{' and '.join(words)}."] if words else []

    @cached_property
    def _answers(self) -> Mapping[tuple[int, int], Mapping[int, Sequence[PageAnswer]]]:
        """By contestant and task: the answers of each sample."""
        found: dict[tuple[int, int], dict[int, Sequence[PageAnswer]]] = {}
        for (who, sample), draws in self.data.answers.items():
            found.setdefault((who, self.data.samples[sample].task), {})[sample] = draws
        return dict(sorted(found.items()))

    @cached_property
    def _values(self) -> Mapping[tuple[int, int], Mapping[int, float]]:
        """By contestant and task: the value of each sample that has a key and a draw that did not
        fail."""
        return {key: _comparable(answers) for key, answers in self._answers.items()}

    @cached_property
    def _groups(self) -> list[int]:
        """The number of each sample's group, which several tasks may share; one without a group is
        its own."""
        names = [sample.group or number for number, sample in enumerate(self.data.samples)]
        return [*map(int, cluster_codes(names, len(names)))]

    def _compare(self, who: int, rival: int) -> Iterator[ContestantPair]:
        every: list[int] = []
        mine: dict[int, float] = {}
        others: dict[int, float] = {}
        out = 0
        for task in range(len(self.data.tasks)):
            left, right = self._values.get((who, task), {}), self._values.get((rival, task), {})
            if shared := [sample for sample in left if sample in right]:
                lacking = len(left.keys() | right.keys()) - len(shared)
                yield self._pair((who, rival, task), left, right, shared, lacking)
                every, out = every + shared, out + lacking
                mine |= left
                others |= right
        if every:
            yield self._pair((who, rival, ALL), mine, others, every, out)

    def _pair(
        self,
        names: tuple[int, int, int],
        left: _Values,
        right: _Values,
        shared: Sequence[int],
        out: int,
    ) -> ContestantPair:
        """The comparison that the tables make, too: its interval is a bootstrap over groups."""
        groups = [self._groups[s] for s in shared]
        paired = compare_paired([left[s] for s in shared], [right[s] for s in shared], groups)
        return ContestantPair(*names, paired, out)


_Values = Mapping[int, float]


def _comparable(answers: Mapping[int, Sequence[PageAnswer]]) -> dict[int, float]:
    kept = {
        name: [a.value for a in draws if a.verdict not in ("failed", "hidden")]
        for name, draws in answers.items()
    }
    return {name: fmean(values) for name, values in kept.items() if values}


def _sentence(pair: ContestantPair, names: Sequence[str]) -> str:
    """One paired difference in words: "a against b: +3.1 points [1.0, 5.2] on 200 samples, exact p
    = 0.01"."""
    paired = pair.paired
    p = "< 0.0001" if paired.p < 0.0001 else f"= {paired.p:.4f}"
    return (
        f"{names[pair.contestant]} against {names[pair.rival]}: {100 * paired.value:+.1f} points"
        f" [{100 * paired.low:+.1f}, {100 * paired.high:+.1f}] on {counted(paired.n, 'sample')}"
        f" that both answered; it wins {paired.better} and loses {paired.worse} ({paired.test}, p"
        f" {p})."
    )
