"""The numbers of a page: the accuracy of every contestant, paired differences of any two, and a
summary."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from operator import attrgetter
from statistics import fmean

import numpy as np

from looktwice.eval.display.text_tables import format_signed
from looktwice.eval.page.data import RESOURCES, PageAnswer, PageData
from looktwice.eval.statistics.intervals import Estimate, finite_mean
from looktwice.eval.statistics.paired import ALPHA, ValueMatrix, correct
from looktwice.pipelines.counted import format_count

MAX_PAIRED_SAMPLES, MAX_INTERVALS = 400_000, 400
"""Limits up to which any two contestants are compared: pairs times samples, and the number of
comparisons on single tasks. Beyond them each contestant is compared only with its baseline, and the
page counts the flips of other pairs without an interval. A bootstrap takes some milliseconds."""

ALL_TASKS = -1
"""The task index that stands for all tasks."""


@dataclass(frozen=True)
class ContestantScore:
    """A contestant on a task (ALL_TASKS: on all its tasks): its accuracy, and the mean resources of
    an answer (`sums`).

    Accuracy on ALL_TASKS pools the samples of all tasks, and so does the difference of two
    contestants; None if nothing was scored.
    """

    contestant: int
    task: int
    accuracy: Estimate | None
    sums: Mapping[str, float]


@dataclass(frozen=True)
class ContestantPair:
    """Two contestants on the samples of a task (ALL_TASKS: of every task) that both answered
    without failing.

    `out` counts the samples that only one of the two has. `p_holm` and `p_bh` are corrected over
    the comparisons that a reader can choose: for a contestant and its baseline, the pairs of that
    baseline on single tasks, or those on ALL_TASKS; for any other two, all pairs of the page.
    `is_significant` is True if `p_holm` is below the level of that family.
    """

    contestant: int
    rival: int
    task: int
    paired: Estimate
    out: int
    p_holm: float | None = None
    p_bh: float | None = None
    is_significant: bool = False


@dataclass(frozen=True)
class PageNumbers:
    """The statistics that a page shows, computed from its data."""

    data: PageData

    @cached_property
    def baseline(self) -> int:
        """The index of the page's first baseline, or 0 if there is none."""
        return next((i for i, who in enumerate(self.data.contestants) if who.baseline), 0)

    @cached_property
    def baselines(self) -> list[int]:
        """The index of each contestant's baseline: its run's, or the page's if its run has none."""
        of_runs = {who.run: n for n, who in enumerate(self.data.contestants) if who.baseline}
        return [of_runs.get(who.run, self.baseline) for who in self.data.contestants]

    @cached_property
    def arms(self) -> list[ContestantScore]:
        """The score of each contestant on each of its tasks, then on ALL_TASKS."""
        asked = defaultdict[tuple[int, int], list[PageAnswer]](list)
        tasks_of = [sample.task for sample in self.data.samples]
        for (who, sample), draws in self.data.answers.items():
            asked[who, tasks_of[sample]] += draws
        whole, arms = self._all_values, list[ContestantScore]()
        tasks = self._all_values_by_task
        for who in range(len(self.data.contestants)):
            mine = list[ContestantScore]()
            for task in sorted(task for arm, task in asked if arm == who):
                accuracy = tasks[task].mean(who) if task in tasks else None
                mine.append(
                    ContestantScore(who, task, accuracy, _average_resources(asked[who, task]))
                )
            if len(mine) > 1:
                spent = [draw for arm in mine for draw in asked[who, arm.task]]
                mine.append(
                    ContestantScore(who, ALL_TASKS, whole.mean(who), _average_resources(spent))
                )
            else:  # its only task is also ALL_TASKS
                mine += [replace(arm, task=ALL_TASKS) for arm in mine]
            arms += mine
        return arms

    @cached_property
    def _asked_tasks(self) -> set[tuple[int, int]]:
        """The pairs (contestant, task) with at least one sample asked."""
        tasks = [sample.task for sample in self.data.samples]
        return {(who, tasks[sample]) for who, sample in self.data.answers}

    def _get_task(self, sample: int) -> int:
        return self.data.samples[sample].task

    @cached_property
    def _all_values(self) -> ValueMatrix[int, int]:
        return self._average_draws()

    @cached_property
    def _all_values_by_task(self) -> dict[int, ValueMatrix[int, int]]:
        return self._split_by_task(self._all_values)

    @cached_property
    def _values_without_failed(self) -> ValueMatrix[int, int]:
        given = chain.from_iterable(self.data.answers.values())
        is_any = any(answer.verdict == "failed" for answer in given)
        return self._average_draws("failed") if is_any else self._all_values

    def _average_draws(self, *without: str) -> ValueMatrix[int, int]:
        """Return the value of each contestant on each sample with a correct answer: the mean of its
        draws, without those with these verdicts."""
        arms: dict[int, dict[int, float]] = {n: {} for n in range(len(self.data.contestants))}
        left_out = {"hidden", *without}
        for who, sample in self._asked_in_order:
            draws = self.data.answers[who, sample]
            if values := [draw.value for draw in draws if draw.verdict not in left_out]:
                arms[who][sample] = values[0] if len(values) == 1 else fmean(values)
        groups = {number: s.group or number for number, s in enumerate(self.data.samples)}
        return ValueMatrix.of(arms, groups, self._get_task)

    @cached_property
    def _asked_in_order(self) -> list[tuple[int, int]]:
        """The pairs (contestant, sample) that were asked, sorted by task and sample."""
        tasks = [sample.task for sample in self.data.samples]
        return sorted(self.data.answers, key=lambda place: (tasks[place[1]], place[1]))

    def _split_by_task(self, values: ValueMatrix[int, int]) -> dict[int, ValueMatrix[int, int]]:
        return dict(sorted(values.split_by(self._get_task).items()))

    @cached_property
    def pairs(self) -> list[ContestantPair]:
        """The pairs of contestants on each task that both have, and on ALL_TASKS; with many
        contestants, only pairs with a baseline."""
        base, everybody = self.baselines, range(len(self.data.contestants))
        whole, pairs = self._values_without_failed, list[ContestantPair]()
        is_all = whole is self._all_values
        by_task = self._all_values_by_task if is_all else self._split_by_task(whole)
        chosen = [(who, base[who]) for who in everybody if who != base[who]]
        rest = [(b, a) for a, b in combinations(everybody, 2) if a != base[b] and b != base[a]]
        tasks_of = {
            pair: [task for task, v in by_task.items() if v.valid_mask(*pair).any()]
            for pair in (*chosen, *rest)
        }
        rest = [pair for pair in rest if tasks_of[pair]]
        is_small = len(rest) * len(self.data.samples) <= MAX_PAIRED_SAMPLES
        if is_small and sum(len(tasks_of[pair]) for pair in rest) <= MAX_INTERVALS:
            chosen += rest
        tasks = np.array([self._get_task(sample) for sample in whole.units], np.int64)
        for who, rival in chosen:
            shared = {task: by_task[task] for task in tasks_of[who, rival]}
            of_both = np.isin(tasks, [*shared])
            is_one = len(by_task) == 1  # then ALL_TASKS is this task
            all_tasks = [] if is_one else [(ALL_TASKS, whole.where(of_both))]
            for task, values in (*shared.items(), *all_tasks):
                if paired := values.compare_arms(who, rival):
                    out = values.count_unpaired(who, rival)
                    pairs.append(ContestantPair(who, rival, task, paired, out))
                    pairs += [replace(pairs[-1], task=ALL_TASKS)] * is_one
        return self._correct_pairs(pairs)

    def _correct_pairs(self, pairs: Sequence[ContestantPair]) -> list[ContestantPair]:
        """Return the pairs with their p-values corrected: as in the tables for pairs with a
        baseline, over all pairs for others."""

        def is_with_baseline(pair: ContestantPair) -> bool:
            return pair.rival == self.baselines[pair.contestant]

        is_one = len(self.data.tasks) == 1  # then ALL_TASKS repeats the comparison on the task
        any_two = correct(
            pairs, lambda pair: pair.paired.p, lambda pair: is_one and pair.task == ALL_TASKS
        )
        with_baseline = correct(
            pairs,
            lambda pair: pair.paired.p if is_with_baseline(pair) else None,
            lambda pair: (pair.rival, pair.task == ALL_TASKS),
        )
        level = ALPHA / self._family_count
        corrected = list[ContestantPair]()
        for other, own in zip(any_two, with_baseline, strict=True):
            pair, most = (own, level) if is_with_baseline(own) else (other, ALPHA)
            is_significant = pair.p_holm is not None and pair.p_holm < most
            corrected.append(replace(pair, is_significant=is_significant))
        return corrected

    @property
    def _family_count(self) -> int:
        """The number of families of comparisons with baselines, for the correction: for each
        baseline one of single tasks, and one of ALL_TASKS if another contestant has the same
        tasks."""
        tasks = defaultdict[int, set[int]](set)
        for who, task in self._asked_tasks:
            tasks[who].add(task)
        families = 0
        for base in {rival for who, rival in enumerate(self.baselines) if who != rival}:
            own = (tasks[who] for who, rival in enumerate(self.baselines) if rival == base != who)
            families += 1 + (len(tasks[base]) > 1 and tasks[base] in own)
        return max(1, families)

    @cached_property
    def comparison_count(self) -> int:
        """The number of comparisons that a reader can choose: pairs of contestants on single tasks
        and on ALL_TASKS."""
        asked = self._asked_tasks
        counts = Counter(task for _, task in asked)
        asked_on_all = len({who for who, _ in asked}) if len(self.data.tasks) > 1 else 0
        return sum(count * (count - 1) // 2 for count in (*counts.values(), asked_on_all))

    @cached_property
    def summary(self) -> list[str]:
        """Sentences on the best contestant, its difference from the baseline, and significance."""
        scored = [arm for arm in self.arms if arm.accuracy is not None]
        names = [who.label for who in self.data.contestants]
        if not scored:
            return ["Nothing was scored: no sample with a correct answer was answered."]
        lines = [self._describe_best(scored, names)]
        pairs = [
            pair for pair in self.pairs if (pair.rival, pair.task) == (self.baseline, ALL_TASKS)
        ]
        if pairs:
            lines.append(_describe_pair(max(pairs, key=lambda pair: pair.paired.value), names))
            significant = [pair.paired.value > 0 for pair in pairs if pair.is_significant]
            better = sum(significant)
            lines.append(
                f"On all tasks together, {better} of {format_count(len(pairs), 'contestant')}"
                f" {'is' if 1 in (better, len(pairs)) else 'are'} significantly better than"
                f" {names[self.baseline]} and {len(significant) - better} worse (5 %, after Holm's"
                " correction)."
            )
        counts = Counter(answer.verdict for draws in self.data.answers.values() for answer in draws)
        kinds = [kind for kind in ("unreadable", "failed") if counts[kind]]
        if kinds:
            left_out = [f"{format_count(counts[kind], 'answer')} {kind}" for kind in kinds]
            lines.append(f"{' and '.join(left_out)}.")
        return lines

    def _describe_best(self, scored: Sequence[ContestantScore], names: Sequence[str]) -> str:
        tasks = format_count(len(self.data.tasks), "task")
        samples = format_count(len(self.data.samples), "sample")
        sentence = f"{format_count(len(names), 'contestant')} answered {samples} of {tasks}."
        given = Counter(arm.contestant for arm in scored if arm.task != ALL_TASKS)
        whole = {
            names[arm.contestant]: arm.accuracy.value
            for arm in scored
            if arm.accuracy
            and arm.task == ALL_TASKS
            and given[arm.contestant] == len(self.data.tasks)
        }
        if len(whole) < 2:
            return sentence
        best, most = max(whole.items(), key=lambda pair: pair[1])
        who = f" of the {len(whole)} contestants that were asked every task" * (
            len(whole) < len(names)
        )
        where = f" over all samples of {tasks}" * (len(self.data.tasks) > 1)
        return f"{sentence} {best} has the highest accuracy{who}, {100 * most:.1f} %{where}."


def _average_resources(answers: Sequence[PageAnswer]) -> dict[str, float]:
    """Return the mean time, tokens and cost of an answer, without resources that were not
    counted."""
    sums = {}
    for name in RESOURCES:
        counts = [count for count in map(attrgetter(name), answers) if count is not None]
        if any(counts):
            sums[name] = finite_mean(counts)
    return sums


def _describe_pair(pair: ContestantPair, names: Sequence[str]) -> str:
    """Describe one paired difference: "a against b: +3.1 points [+1.0, +5.2] on 200 samples that
    both answered ..."."""
    paired = pair.paired
    p = "< 0.0001" if paired.p < 0.0001 else f"= {paired.p:.4f}"
    return (
        f"{names[pair.contestant]} against {names[pair.rival]}: {format_signed(paired.value)}"
        " points"
        f" [{format_signed(paired.low)}, {format_signed(paired.high)}] on"
        f" {format_count(paired.n, 'sample')}"
        f" that both answered; better on {paired.better}, worse on {paired.worse} ({paired.test},"
        f" p {p})."
    )
