"""What a page says in numbers: the accuracy of every contestant, paired differences of any two, and
a sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import fsum
from statistics import fmean

import numpy as np

from looktwice.eval.page.data import SPENT, PageAnswer, PageData
from looktwice.eval.statistics.intervals import Estimate, Stratum, mean_of_shares
from looktwice.eval.statistics.paired import Values, correct
from looktwice.pipelines.counted import counted

MOST_COMPARED, MOST_INTERVALS = 400_000, 400
"""Any two contestants are compared while pairs times samples, and pairs times tasks, stay below
these; else each with the baseline alone. A bootstrap interval takes some milliseconds."""

ALL = -1
"""The number of the task that stands for all of them."""


@dataclass(frozen=True)
class ContestantScore:
    """A contestant on a task (ALL: on all of its own): its accuracy, and the mean of what an answer
    takes.

    Accuracy over all tasks is the mean of the tasks' (macro); None where nothing was scored.
    """

    contestant: int
    task: int
    accuracy: Estimate | None
    sums: Mapping[str, float] = field(default_factory=dict)


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
        asked = defaultdict[tuple[int, int], list[PageAnswer]](list)
        for (who, sample), draws in self.data.answers.items():
            asked[who, self._task_of(sample)] += draws
        tasks, arms = self._by_task(self._values()), list[ContestantScore]()
        for who in range(len(self.data.contestants)):
            mine = list[ContestantScore]()
            for task in sorted(task for other, task in asked if other == who):
                accuracy = tasks[task].mean(who) if task in tasks else None
                mine.append(ContestantScore(who, task, accuracy, _spent(asked[who, task])))
            if mine:
                arms += [*mine, _over_tasks(who, mine, tasks)]
        return arms

    def _task_of(self, sample: int) -> int:
        return self.data.samples[sample].task

    def _values(self, *without: str) -> Values[int, int]:
        """What each contestant is worth on each sample with a key, the mean of its draws `without`
        these verdicts."""
        arms: dict[int, dict[int, float]] = {n: {} for n in range(len(self.data.contestants))}
        asked = sorted(self.data.answers, key=lambda place: (self._task_of(place[1]), place[1]))
        for who, sample in asked:
            draws = self.data.answers[who, sample]
            if values := [a.value for a in draws if a.verdict not in (*without, "hidden")]:
                arms[who][sample] = fmean(values)
        groups = {number: s.group or number for number, s in enumerate(self.data.samples)}
        return Values.of(arms, groups)

    def _by_task(self, values: Values[int, int]) -> dict[int, Values[int, int]]:
        return dict(sorted(values.by(self._task_of).items()))

    @cached_property
    def pairs(self) -> list[ContestantPair]:
        """Any two contestants on each task that both have, and on ALL; with many contestants the
        baseline's alone."""
        base, everybody = self.baseline, range(len(self.data.contestants))
        chosen = [(who, base) for who in everybody if who != base]
        rest = [(b, a) for a, b in combinations(everybody, 2) if base not in (a, b)]
        samples, tasks = len(self.data.samples), len(self.data.tasks)
        if len(rest) * samples <= MOST_COMPARED and len(rest) * tasks <= MOST_INTERVALS:
            chosen += rest
        whole, pairs = self._values("failed"), list[ContestantPair]()
        by_task = self._by_task(whole)
        for who, rival in chosen:
            shared = {task: v for task, v in by_task.items() if v.has(who, rival).any()}
            of_both = [self._task_of(sample) in shared for sample in whole.units]
            for task, values in (*shared.items(), (ALL, whole.where(np.array(of_both, bool)))):
                if paired := values.pair(who, rival):
                    out = values.left_out(who, rival)
                    pairs.append(ContestantPair(who, rival, task, paired, out))
        return correct(
            pairs,
            lambda pair: pair.paired.p if pair.rival == base else None,
            lambda pair: pair.task == ALL,
        )

    @cached_property
    def summary(self) -> list[str]:
        """Who did best, by how much, how sure and on what; made of the numbers alone."""
        scored = [arm for arm in self.arms if arm.accuracy is not None]
        names = [who.label for who in self.data.contestants]
        if not scored:
            return ["Nothing was scored: there is no sample with a key and an answer."]
        lines = [self._who_is_best(scored, names)]
        pairs = [pair for pair in self.pairs if (pair.rival, pair.task) == (self.baseline, ALL)]
        if pairs:
            lines.append(_sentence(max(pairs, key=lambda pair: pair.paired.value), names))
            sure = [pair.paired.value > 0 for pair in pairs if (pair.p_holm or 0.0) < 0.05]
            better = sum(sure)
            lines.append(
                f"Against {names[self.baseline]}, on all tasks together, {better} of"
                f" {counted(len(pairs), 'contestant')} surely {'does' if better == 1 else 'do'}"
                f" better and {len(sure) - better} worse (5 %, after Holm)."
            )
        counts = Counter(answer.verdict for draws in self.data.answers.values() for answer in draws)
        kinds = [kind for kind in ("unreadable", "failed") if counts[kind]]
        if kinds:
            left_out = [f"{counted(counts[kind], 'answer')} {kind}" for kind in kinds]
            lines.append(f"{' and '.join(left_out)}.")
        return lines

    def _who_is_best(self, scored: Sequence[ContestantScore], names: Sequence[str]) -> str:
        tasks = counted(len(self.data.tasks), "task")
        samples = counted(len(self.data.samples), "sample")
        sentence = f"{counted(len(names), 'contestant')} answered {samples} of {tasks}."
        given = Counter(arm.contestant for arm in scored if arm.task != ALL)
        whole = {
            names[arm.contestant]: arm.accuracy.value
            for arm in scored
            if arm.accuracy and arm.task == ALL and given[arm.contestant] == len(self.data.tasks)
        }
        if len(whole) < 2:
            return sentence
        best, most = max(whole.items(), key=lambda pair: pair[1])
        who = f" of the {len(whole)} contestants with every task" * (len(whole) < len(names))
        where = f" as the mean of {tasks}" * (len(self.data.tasks) > 1)
        return f"{sentence} {best} has the highest accuracy{who}, {100 * most:.1f} %{where}."


def _spent(answers: Sequence[PageAnswer]) -> dict[str, float]:
    """The mean of what an answer takes, as far as anybody counted it."""
    sums = {}
    for name in SPENT:
        counts = [count for answer in answers if (count := getattr(answer, name)) is not None]
        if any(counts):
            sums[name] = fsum(counts) / len(counts)
    return sums


def _over_tasks(
    who: int, arms: Sequence[ContestantScore], tasks: Mapping[int, Values[int, int]]
) -> ContestantScore:
    """The mean over tasks with its interval, and the mean of what an answer takes, weighted by
    n."""
    strata, sums = list[Stratum](), defaultdict[str, float](float)
    for arm in arms:
        if arm.accuracy:
            values = tasks[arm.task].where(tasks[arm.task].has(who))
            strata.append(Stratum(values[who], values.clusters.tolist()))
            for name, spent in arm.sums.items():
                sums[name] += spent * arm.accuracy.n
    if not strata:
        return ContestantScore(who, ALL, None)
    accuracy = mean_of_shares([part._replace(weight=1 / len(strata)) for part in strata])
    means = {name: spent / accuracy.n for name, spent in sums.items()}
    return ContestantScore(who, ALL, accuracy, means)


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
